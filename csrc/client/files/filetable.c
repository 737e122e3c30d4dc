#include "filetable.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "../machine/park.h"
#include "../machine/restricted.h"
#include "arena.h"
#include "moved.h"
#include "overlay.h"

enum { CHUNK = FAN_TABLE_CHUNK, CHUNKS = FAN_TABLE_CHUNKS };
_Atomic(fan_table_entry *) fan_table[CHUNKS];
static atomic_uint chunks_end; /* there is none from here on: forks look at no others */

/* Files, likewise; a file's number is also that of its slot in the own arena. */
static _Atomic(struct fan_file *) pools[FAN_ARENA_SLOTS / CHUNK];
static atomic_uint unused; /* numbers from here on were never used */
static atomic_uint zombies;
static atomic_uint next_sweep = 64; /* grows with what a sweep could not free */
static _Atomic uint64_t free_head; /* number + 1, and a tag in the high half against ABA */

const struct fan_file_hooks *fan_file_hooks;

static atomic_int placeholder; /* holder of the parked descriptor */

static struct fan_file *file_at(uint32_t number)
{
    _Atomic(struct fan_file *) *pool = &pools[number / CHUNK];
    struct fan_file *files = atomic_load_explicit(pool, memory_order_acquire);
    if (files == NULL) {
        struct fan_file *made = fan_sys_memory(CHUNK * sizeof(*made));
        if (made == NULL)
            return NULL;
        if (atomic_compare_exchange_strong(pool, &files, made))
            files = made;
        else
            fan_sys_munmap(made, CHUNK * sizeof(*made));
    }
    return &files[number % CHUNK];
}

static void push_free(struct fan_file *file)
{
    uint64_t head = atomic_load(&free_head), next;
    atomic_store_explicit(&file->kind, FAN_FILE_FREE, memory_order_relaxed);
    do {
        atomic_store_explicit(&file->next, (uint32_t)head, memory_order_relaxed);
        next = ((head >> 32) + 1) << 32 | (file->number + 1);
    } while (!atomic_compare_exchange_weak(&free_head, &head, next));
}

static struct fan_file *pop_free(void)
{
    uint64_t head = atomic_load(&free_head), next;
    struct fan_file *file;
    do {
        if ((uint32_t)head == 0)
            return NULL;
        file = file_at((uint32_t)head - 1);
        next = ((head >> 32) + 1) << 32 | atomic_load_explicit(&file->next, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(&free_head, &head, next));
    return file;
}

void fan_decoded_fini(struct fan_decoded *decoded)
{
    if (decoded->bytes != NULL)
        fan_sys_munmap(decoded->bytes, decoded->capacity);
    decoded->bytes = NULL;
    decoded->capacity = 0;
    atomic_store_explicit(&decoded->block, 0, memory_order_relaxed);
}

void fan_file_drop_entries(struct fan_file *file)
{
    struct fan_entries *entries = file->entries;
    if (entries == NULL)
        return;
    file->entries = NULL;
    fan_file_hooks->entries_end(entries);
}

static bool slot_is_shared(const struct fan_file *file)
{
    return fan_arena_is_own(file->slot) && atomic_load(&file->slot->refs) > 0;
}

/* Gives back a zombie that is the caller's alone. Whether it could. */
static bool free_zombie(struct fan_file *file)
{
    if (slot_is_shared(file) || atomic_load(&file->waiting) > 0 ||
        atomic_flag_test_and_set(&file->decoded.busy))
        return false;
    fan_decoded_fini(&file->decoded);
    fan_file_drop_entries(file);
    atomic_flag_clear(&file->decoded.busy);
    atomic_fetch_sub(&zombies, 1);
    push_free(file);
    return true;
}

/* Gives back the zombies whose other users have gone. */
static void sweep_zombies(void)
{
    uint32_t count = atomic_load(&unused);
    for (uint32_t i = 0; i < count && i < FAN_ARENA_SLOTS; i++) {
        struct fan_file *file = file_at(i);
        unsigned expected = FAN_FILE_ZOMBIE;
        if (file != NULL && atomic_load_explicit(&file->kind, memory_order_relaxed) == expected &&
            atomic_compare_exchange_strong(&file->kind, &expected, FAN_FILE_FREE) &&
            !free_zombie(file))
            atomic_store(&file->kind, FAN_FILE_ZOMBIE);
    }
}

static struct fan_file *take_file(void)
{
    struct fan_file *file = pop_free();
    if (file == NULL && atomic_load(&zombies) >= atomic_load(&next_sweep)) {
        sweep_zombies();
        atomic_store(&next_sweep, 64 + 2 * atomic_load(&zombies));
        file = pop_free();
    }
    if (file != NULL)
        return file;
    uint32_t number = atomic_fetch_add(&unused, 1);
    if (number >= FAN_ARENA_SLOTS) {
        atomic_fetch_sub(&unused, 1);
        return NULL;
    }
    file = file_at(number);
    if (file != NULL)
        file->number = number;
    return file;
}

/* Only one thread opens or closes a file. */
static void renew(struct fan_file *file)
{
    unsigned generation = atomic_load_explicit(&file->generation, memory_order_relaxed);
    atomic_store_explicit(&file->generation, generation + 1, memory_order_release);
}

static struct fan_file *fill_file(struct fan_file *file, struct fan_slot *slot)
{
    struct fan_view *view = &fan_job.views[slot->view];
    struct fan_dataset *dataset = fan_view_dataset(view);
    if (dataset == NULL)
        return NULL;
    file->slot = slot;
    file->view = view;
    file->dataset = dataset;
    file->id = slot->id;
    bool is_record = fan_file_has_record(slot->kind);
    file->record = is_record ? fan_index_record(&dataset->index, slot->id) : NULL;
    file->data = NULL;
    file->writable = slot->writable != 0;
    file->writer = 0;
    atomic_store_explicit(&file->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&file->kind, slot->kind, memory_order_release);
    renew(file); /* last: whoever sees it sees all of the above */
    return file->record == NULL && is_record ? NULL : file;
}

struct fan_file *fan_file_new(struct fan_view *view, uint64_t id, enum fan_file_kind kind,
                              unsigned status)
{
    struct fan_file *file = take_file();
    struct fan_slot *slot = file != NULL ? fan_arena_slot(file->number) : NULL;
    if (slot == NULL) {
        if (file != NULL)
            push_free(file);
        return NULL;
    }
    atomic_store_explicit(&slot->offset, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&slot->status, status, memory_order_relaxed);
    slot->view = (uint32_t)(view - fan_job.views);
    slot->kind = kind;
    slot->id = id;
    slot->writable = 0;
    slot->inode = 0;
    if (fill_file(file, slot) != NULL)
        return file;
    atomic_store(&slot->refs, 0);
    push_free(file);
    return NULL;
}

struct fan_file *fan_file_adopt(struct fan_slot *slot)
{
    bool sane = slot->view < fan_job.view_count && slot->kind > FAN_FILE_FREE &&
                slot->kind < FAN_FILE_ZOMBIE;
    struct fan_file *file = sane ? take_file() : NULL;
    if (file != NULL && fill_file(file, slot) == NULL) {
        push_free(file);
        return NULL;
    }
    return file;
}

/* Frees what a file holds beside its slot. Whether nobody is at it. Stored content has nothing: no
 * locked instruction for it. */
static bool end_buffers(struct fan_file *file, unsigned kind)
{
    if (kind == FAN_FILE_REGULAR && file->record->codec == FAN_CODEC_STORE)
        return true;
    if (atomic_flag_test_and_set_explicit(&file->decoded.busy, memory_order_acquire))
        return false;
    fan_decoded_fini(&file->decoded);
    fan_file_drop_entries(file);
    atomic_flag_clear_explicit(&file->decoded.busy, memory_order_release);
    return true;
}

static void release(struct fan_file *file)
{
    unsigned kind = atomic_load_explicit(&file->kind, memory_order_relaxed);
    renew(file);
    if (__builtin_expect(file->writable, 0))
        fan_file_hooks->let_go(file);
    if (__builtin_expect(atomic_load_explicit(&file->registered, memory_order_relaxed) != 0, 0))
        fan_file_hooks->remote_close(file);
    if (__builtin_expect(atomic_load_explicit(&file->moved, memory_order_relaxed) != 0, 0))
        fan_moved_end(file);
    bool idle = end_buffers(file, kind);
    if (!idle || atomic_load(&file->waiting) > 0 || slot_is_shared(file)) {
        atomic_fetch_add(&zombies, 1);
        atomic_store_explicit(&file->kind, FAN_FILE_ZOMBIE, memory_order_release);
    } else {
        push_free(file);
    }
}

void fan_file_put(struct fan_file *file)
{
    atomic_fetch_sub(&file->slot->refs, 1);
    bool last = atomic_load_explicit(&file->refs, memory_order_acquire) == 1;
    if (last || atomic_fetch_sub(&file->refs, 1) == 1)
        release(file);
}

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
        if (atomic_compare_exchange_strong(&fan_table[number / CHUNK], &chunk, made))
            chunk = made;
        else
            fan_sys_munmap(made, CHUNK * sizeof(fan_table_entry));
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
        return (int)FAN_SYS(dup, fd); /* the shorter way through the kernel */
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
    /* Zombies waited for users of the parent's arena; this process has a new one. */
    sweep_zombies();
}
