/* Which writable outputs this process has, and what the daemon is told when that changes. */
#include <fcntl.h>

#include "../../common/sys.h"
#include "../machine/vfork.h"
#include "../paths/output_tree.h"
#include "outputs.h"
#include "own.h"
#include "writers.h"

enum { LET_GO_MAX = 32, LINGERING_MAX = 64 };

/* Writable outputs that were opened here, inherited or adopted, and of which the daemon has not
 * said that they are finished: exit, exec and fork cost nothing while there are none. */
static atomic_uint count;

/* Objects that this thread let go of. A signal handler may come in between: an entry is taken and
 * emptied in one step. */
static __thread _Atomic uint64_t gone[LET_GO_MAX] __attribute__((tls_model("initial-exec")));
static __thread bool overflowed __attribute__((tls_model("initial-exec")));
__thread bool fan_outputs_pending __attribute__((tls_model("initial-exec")));

/* Objects that were let go of and can be changed still: mapped, or inherited by others. */
static _Atomic uint64_t lingering[LINGERING_MAX];

/* Objects for a question, which is asked when there are many. */
struct batch {
    enum fan_output_op op;
    unsigned count;
    uint64_t objects[FAN_OUTPUT_OBJECTS_MAX];
};

/* The answer's `where`, or -errno. */
static int tell(enum fan_output_op op, const uint64_t *objects, unsigned object_count)
{
    struct fan_output_call call = {.request = {.op = (uint16_t)op, .object_count = object_count},
                                   .objects = objects};
    struct fan_output_answer answer;
    int rc = fan_output_ask(&call, &answer, NULL);
    return rc == 0 ? (int)answer.where : rc;
}

static void flush(struct batch *batch)
{
    if (batch->count > 0)
        tell(batch->op, batch->objects, batch->count);
    batch->count = 0;
}

static void add(struct batch *batch, uint64_t object)
{
    if (batch->count == FAN_OUTPUT_OBJECTS_MAX)
        flush(batch);
    batch->objects[batch->count++] = object;
}

static bool is_writable(const struct fan_file *file)
{
    return atomic_load_explicit(&file->kind, memory_order_acquire) == FAN_FILE_OUTPUT &&
           file->writable;
}

struct search {
    uint64_t object;
    const struct fan_file *but;
    bool found;
};

static void compare(int fd, struct fan_file *file, void *context)
{
    struct search *search = context;
    (void)fd;
    if (file != search->but && is_writable(file) && file->id == search->object)
        search->found = true;
}

bool fan_output_held(uint64_t object, const struct fan_file *file)
{
    struct search search = {object, file, false};
    fan_file_each(compare, &search);
    return search.found;
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
    if (fan_tree_used())
        fan_writer_release_all();
}

void fan_output_let_go(const struct fan_file *file)
{
    if (fan_tree_used()) {
        atomic_fetch_sub(&count, 1);
        fan_writer_release(file);
        fan_tree_changed();
        return;
    }
    if (atomic_load(&count) > 1 && fan_output_held(file->id, file)) {
        atomic_fetch_sub(&count, 1);
        return;
    }
    unsigned i = 0;
    for (uint64_t empty = 0; i < LET_GO_MAX; i++, empty = 0) {
        if (atomic_compare_exchange_strong(&gone[i], &empty, file->id))
            break;
    }
    overflowed = overflowed || i == LET_GO_MAX;
    fan_outputs_pending = true;
}

void fan_output_disown(struct fan_file *file)
{
    atomic_fetch_sub(&count, 1);
    if (fan_tree_used() && fan_output_behalf != 0)
        fan_writer_pass_on(file, fan_output_behalf);
    file->writable = false;
}

static void linger(uint64_t object)
{
    for (unsigned i = 0; i < LINGERING_MAX; i++) {
        uint64_t empty = 0;
        if (atomic_compare_exchange_strong(&lingering[i], &empty, object))
            return;
        if (empty == object) { /* counted already */
            atomic_fetch_sub(&count, 1);
            return;
        }
    }
}

static void linger_no_more(uint64_t object)
{
    for (unsigned i = 0; i < LINGERING_MAX; i++) {
        uint64_t expected = object;
        if (atomic_compare_exchange_strong(&lingering[i], &expected, 0))
            atomic_fetch_sub(&count, 1);
    }
}

int fan_output_settle_pending(void)
{
    uint64_t objects[LET_GO_MAX];
    unsigned object_count = 0;
    bool all = overflowed;
    fan_outputs_pending = false;
    overflowed = false;
    for (unsigned i = 0; i < LET_GO_MAX; i++) {
        uint64_t object = atomic_load(&gone[i]);
        if (object == 0 || (object = atomic_exchange(&gone[i], 0)) == 0)
            continue;
        if (fan_own_settle(object) == 0)
            atomic_fetch_sub(&count, 1);
        else
            objects[object_count++] = object;
    }
    if (object_count == 0 && !all)
        return 0;
    int rc = tell(FAN_OUTPUT_SETTLE, objects, all ? 0 : object_count);
    for (unsigned i = 0; i < object_count; i++) {
        if (rc == FAN_OUTPUT_SETTLED) {
            linger_no_more(objects[i]);
            atomic_fetch_sub(&count, 1);
        } else {
            linger(objects[i]);
        }
    }
    return rc < 0 ? rc : 0;
}

static void add_writable(int fd, struct fan_file *file, void *batch)
{
    (void)fd;
    if (is_writable(file))
        add(batch, file->id);
}

static void add_lingering(struct batch *batch)
{
    for (unsigned i = 0; i < LINGERING_MAX; i++) {
        uint64_t object = atomic_load(&lingering[i]);
        if (object != 0 && !fan_output_held(object, NULL))
            add(batch, object);
    }
}

static void hold_all(bool with_lingering)
{
    struct batch batch = {.op = FAN_OUTPUT_HOLD, .count = 0};
    fan_file_each(add_writable, &batch);
    if (with_lingering)
        add_lingering(&batch);
    flush(&batch);
}

static void claim_writable(int fd, struct fan_file *file, void *unused)
{
    (void)fd;
    (void)unused;
    if (is_writable(file))
        fan_writer_claim(file);
}

/* What the parent has closed is most often another child's: were that one killed, this one would
 * have it published. */
void fan_output_after_fork_child(void)
{
    if (fan_tree_used()) {
        fan_writer_after_fork_child();
        if (atomic_load(&count) > 0)
            fan_file_each(claim_writable, NULL);
    } else if (atomic_load(&count) > 0) {
        hold_all(false);
    }
}

static bool survives(int fd)
{
    int flags = fan_sys_fcntl(fd, F_GETFD, 0);
    return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

static void add_surviving(int fd, struct fan_file *file, void *batch)
{
    if (is_writable(file) && survives(fd))
        add(batch, file->id);
}

static void compare_surviving(int fd, struct fan_file *file, void *context)
{
    struct search *search = context;
    if (is_writable(file) && file->id == search->object && survives(fd))
        search->found = true;
}

/* What no descriptor carries through exec. */
static void add_closing(int fd, struct fan_file *file, void *batch)
{
    struct search search = {file->id, NULL, false};
    if (!is_writable(file) || survives(fd))
        return;
    fan_file_each(compare_surviving, &search);
    if (!search.found)
        add(batch, file->id);
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

/* In the tree: what goes with exec is let go of, and what goes on is the new program's. A vfork
 * child has another number than the process whose entries there are. */
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
    if (atomic_load(&count) == 0)
        return;
    if (fan_tree_used()) {
        fan_file_each(hand_on, NULL);
        return;
    }
    struct batch batch = {.op = FAN_OUTPUT_HAND_ON, .count = 0};
    fan_file_each(add_surviving, &batch);
    flush(&batch);
    if (fan_in_vfork_child())
        return;
    batch.op = FAN_OUTPUT_LEAVE;
    fan_file_each(add_closing, &batch);
    add_lingering(&batch);
    flush(&batch);
}

void fan_output_after_failed_exec(void)
{
    if (atomic_load(&count) == 0)
        return;
    if (fan_tree_used() && fan_in_vfork_child())
        fan_writer_release_all();
    else if (fan_tree_used())
        fan_file_each(claim_writable, NULL);
    else if (!fan_in_vfork_child())
        hold_all(true);
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

/* The program before this one left entries under the same number. */
static void take_entries(void)
{
    fan_file_each(claim_writable, NULL);
    fan_writer_release_others(is_held);
}

void fan_output_adopted(void)
{
    fan_file_each(count_writable, NULL);
    if (fan_tree_used())
        take_entries();
    else if (atomic_load(&count) > 0)
        hold_all(false);
}

void fan_output_at_exit(void)
{
    if (atomic_load(&count) > 0 && fan_tree_used())
        fan_writer_release_all();
    else if (atomic_load(&count) > 0)
        tell(FAN_OUTPUT_LEAVE, NULL, 0);
}
