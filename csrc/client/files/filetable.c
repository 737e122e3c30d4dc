#include "filetable.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../../common/sys.h"
#include "../machine/park.h"
#include "../machine/limits.h"
#include "arena.h"
#include "moved.h"

enum { CHUNK = FAN_TABLE_CHUNK, CHUNKS = FAN_TABLE_CHUNKS };
_Atomic(fan_table_entry *) fan_table[CHUNKS];
static atomic_uint chunks_end; /* no chunk from here on exists, so forks can stop here */

static atomic_int placeholder; /* holder of the placeholder's descriptor */

static fan_table_entry *entry_of(int fd, bool make)
{
    unsigned number = (unsigned)fd;
    if (number >= CHUNK * CHUNKS)
        return NULL;
    fan_table_entry *chunk = atomic_load_explicit(&fan_table[number / CHUNK], memory_order_acquire);
    if (chunk == NULL && make) {
        fan_table_entry *made = fan_sys_memory(CHUNK * sizeof(fan_table_entry));
        if (made == NULL)
            return NULL;
        unsigned end = atomic_load(&chunks_end);
        while (end <= number / CHUNK &&
               !atomic_compare_exchange_weak(&chunks_end, &end, number / CHUNK + 1)) {
        }
        chunk = fan_sys_publish(&fan_table[number / CHUNK], made, CHUNK * sizeof(fan_table_entry));
    }
    return chunk != NULL ? &chunk[number % CHUNK] : NULL;
}

struct fan_file *fan_file_get_overlaid(int fd)
{
    struct fan_file *file;
    return fan_overlay_applies() && fan_overlay_get(fd, &file) ? file : fan_table_get(fd);
}

int fan_file_install(int fd, struct fan_file *file)
{
    if (fan_overlay_applies()) {
        fan_overlay_set(fd, file);
        return 0;
    }
    fan_table_entry *at = entry_of(fd, true);
    if (at == NULL) {
        fan_file_put(file);
        return -ENOMEM;
    }
    struct fan_file *before = atomic_exchange(at, file);
    if (before != NULL)
        fan_file_put(before);
    return 0;
}

int fan_file_give(int fd, struct fan_file *file)
{
    int rc = file != NULL ? fan_file_install(fd, file) : -ENFILE;
    if (__builtin_expect(rc == 0, 1))
        return fd;
    fan_sys_close(fd);
    return rc;
}

int fan_file_share(int fd, struct fan_file *file)
{
    atomic_fetch_add(&file->slot->refs, 1);
    atomic_fetch_add(&file->refs, 1);
    return fan_file_install(fd, file);
}

void fan_file_remove_ours(int fd)
{
    if (fan_overlay_applies()) {
        fan_overlay_set(fd, NULL);
        return;
    }
    fan_table_entry *at = entry_of(fd, false);
    struct fan_file *before = at != NULL ? atomic_exchange(at, NULL) : NULL;
    if (before != NULL)
        fan_file_put(before);
}

void fan_file_remove_range(unsigned first, unsigned last)
{
    if (fan_overlay_applies()) {
        fan_overlay_close_range(first, last);
        return;
    }
    for (unsigned chunk = first / CHUNK; chunk < CHUNKS && chunk <= last / CHUNK; chunk++) {
        if (atomic_load(&fan_table[chunk]) == NULL)
            continue;
        for (unsigned i = 0; i < CHUNK; i++) {
            unsigned fd = chunk * CHUNK + i;
            if (fd >= first && fd <= last)
                fan_file_remove((int)fd);
        }
    }
}

static int open_another_placeholder(bool cloexec)
{
    char path[4096];
    static const char name[] = "/placeholder";
    if (fan_job.directory.bytes + sizeof(name) > sizeof(path))
        return -ENAMETOOLONG;
    memcpy(path, fan_job.directory.text, fan_job.directory.bytes);
    memcpy(path + fan_job.directory.bytes, name, sizeof(name));
    int fd = fan_sys_openat(AT_FDCWD, path, O_PATH | O_NOFOLLOW | (cloexec ? O_CLOEXEC : 0), 0);
    return fd >= 0 || fd == -EMFILE || fd == -ENFILE ? fd : -EIO;
}

static int open_placeholder(void)
{
    int fd = open_another_placeholder(true);
    return fd >= 0 ? fan_park(fd, &placeholder) : fd;
}

int fan_placeholder(int minimum, bool cloexec)
{
    if (fan_restricted() && minimum == 0)
        return open_another_placeholder(cloexec);
    int fd = fan_parked(&placeholder);
    if (__builtin_expect(fd < 0, 0)) {
        fd = open_placeholder();
        if (fd < 0)
            return fd;
    }
    if (minimum == 0 && !cloexec)
        return (int)FAN_SYS(dup, fd); /* plain dup is faster in the kernel */
    return fan_sys_fcntl(fd, cloexec ? F_DUPFD_CLOEXEC : F_DUPFD, minimum);
}

static void prepare_sharing(int fd, struct fan_file *file, void *context)
{
    (void)fd;
    (void)context;
    fan_moved_prepare(file);
}

void fan_file_make_ready(void)
{
    if (fan_parked(&placeholder) < 0)
        open_placeholder();
    fan_arena_slot(0);
}

void fan_file_before_vfork(void)
{
    fan_file_make_ready();
    fan_file_each(prepare_sharing, NULL);
}

static void each_entry(void (*visit)(int fd, struct fan_file *file, void *context), void *context,
                       bool child)
{
    for (unsigned chunk = 0, end = atomic_load(&chunks_end); chunk < end; chunk++) {
        fan_table_entry *at = atomic_load_explicit(&fan_table[chunk], memory_order_acquire);
        for (unsigned i = 0; at != NULL && i < CHUNK; i++) {
            struct fan_file *file = atomic_load(&at[i]);
            struct fan_file *changed;
            bool overlaid =
                child && fan_overlay_get((int)(chunk * CHUNK + i), &changed);
            if (file != NULL && !overlaid)
                visit((int)(chunk * CHUNK + i), file, context);
        }
    }
}

void fan_file_each(void (*visit)(int fd, struct fan_file *file, void *context), void *context)
{
    bool child = fan_overlay_applies();
    each_entry(visit, context, child);
    if (child)
        fan_overlay_each(visit, context);
}

static void count_for_child(int fd, struct fan_file *file, void *amount)
{
    (void)fd;
    if (*(unsigned *)amount == 1)
        fan_moved_prepare(file);
    atomic_fetch_add(&file->slot->refs, *(unsigned *)amount);
}

void fan_file_before_fork(void)
{
    unsigned one = 1;
    fan_file_each(count_for_child, &one);
}

void fan_file_after_failed_fork(void)
{
    unsigned minus_one = (unsigned)-1;
    fan_file_each(count_for_child, &minus_one);
}

void fan_file_after_fork_child(void)
{
    fan_overlay_forget();
    fan_arena_after_fork_child();
    /* Frees zombies, which waited for users of the parent's arena: this process now has its own. */
    fan_file_sweep();
}
