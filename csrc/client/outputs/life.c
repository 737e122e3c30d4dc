/* Tracks the writable outputs of this process, and updates its entries (writers.h) when they
 * change. */
#include <fcntl.h>

#include "../../common/sys.h"
#include "../machine/vfork.h"
#include "../paths/output_tree.h"
#include "outputs.h"
#include "writers.h"

/* How many writable outputs were opened here, inherited or adopted. While this is 0, exit, exec and
 * fork cost nothing. */
static atomic_uint count;

static bool is_writable(const struct fan_file *file)
{
    return atomic_load_explicit(&file->kind, memory_order_acquire) == FAN_FILE_OUTPUT &&
           file->writable;
}

void fan_output_taken(void)
{
    atomic_fetch_add(&count, 1);
}

bool fan_output_any(void)
{
    return atomic_load(&count) > 0;
}

void fan_output_leave(void)
{
    fan_writer_release_all();
}

void fan_output_let_go(const struct fan_file *file)
{
    atomic_fetch_sub(&count, 1);
    fan_writer_release(file);
    fan_tree_changed();
}

void fan_output_disown(struct fan_file *file)
{
    atomic_fetch_sub(&count, 1);
    if (fan_output_behalf != 0)
        fan_writer_pass_on(file, fan_output_behalf);
    file->writable = false;
}

static void claim_writable(int fd, struct fan_file *file, void *unused)
{
    (void)fd;
    (void)unused;
    if (is_writable(file))
        fan_writer_claim(file);
}

void fan_output_after_fork_child(void)
{
    fan_writer_after_fork_child();
    if (atomic_load(&count) > 0)
        fan_file_each(claim_writable, NULL);
}

static bool survives(int fd)
{
    int flags = fan_sys_fcntl(fd, F_GETFD, 0);
    return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

struct held {
    const struct fan_file *file;
    bool found;
};

static void look_surviving(int fd, struct fan_file *file, void *context)
{
    struct held *held = context;
    held->found = held->found || (file == held->file && survives(fd));
}

/* Releases an output that exec closes, and leaves any other to the new program. The number of a
 * vfork child differs from its parent's, which owns the entries. */
static void hand_on(int fd, struct fan_file *file, void *unused)
{
    struct held held = {file, false};
    (void)unused;
    if (!is_writable(file))
        return;
    if (fan_in_vfork_child()) {
        if (survives(fd))
            fan_writer_claim_handed(file->slot->inode);
        return;
    }
    fan_file_each(look_surviving, &held);
    if (!held.found) {
        fan_writer_release(file);
        file->writer = 0;
    }
}

void fan_output_before_exec(void)
{
    if (atomic_load(&count) > 0)
        fan_file_each(hand_on, NULL);
}

void fan_output_after_failed_exec(void)
{
    if (atomic_load(&count) == 0)
        return;
    if (fan_in_vfork_child())
        fan_writer_release_all();
    else
        fan_file_each(claim_writable, NULL);
}

static void count_writable(int fd, struct fan_file *file, void *unused)
{
    (void)fd;
    (void)unused;
    if (is_writable(file))
        atomic_fetch_add(&count, 1);
}

struct entry {
    uint32_t number;
    bool held;
};

static void compare_entry(int fd, struct fan_file *file, void *context)
{
    struct entry *entry = context;
    (void)fd;
    entry->held = entry->held || (is_writable(file) && file->writer == entry->number);
}

static bool is_held(uint32_t number)
{
    struct entry entry = {number, false};
    fan_file_each(compare_entry, &entry);
    return entry.held;
}

/* Takes over the entries that the program before exec left under the same number. */
static void take_entries(void)
{
    fan_file_each(claim_writable, NULL);
    fan_writer_release_others(is_held);
}

void fan_output_adopted(void)
{
    fan_file_each(count_writable, NULL);
    take_entries();
}

void fan_output_at_exit(void)
{
    if (atomic_load(&count) > 0)
        fan_writer_release_all();
}
