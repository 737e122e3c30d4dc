#include "file.h"

#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "arena.h"
#include "moved.h"

enum { CHUNK = 1024 };

/* All files, in chunks that are allocated when needed. A file's number is also the number of its
 * slot in the own arena. */
static _Atomic(struct fan_file *) pools[FAN_ARENA_SLOTS / CHUNK];
static atomic_uint unused; /* files from this number on were never used */
static atomic_uint zombies;
static atomic_uint next_sweep = 64; /* rises by what a sweep could not free */
static _Atomic uint64_t free_head;  /* number + 1, and a tag in the high half against ABA */

const struct fan_file_hooks *fan_file_hooks;

static struct fan_file *file_at(uint32_t number)
{
    _Atomic(struct fan_file *) *pool = &pools[number / CHUNK];
    struct fan_file *files = atomic_load_explicit(pool, memory_order_acquire);
    if (files == NULL) {
        const size_t bytes = CHUNK * sizeof(*files);
        files = fan_sys_publish(pool, fan_sys_memory(bytes), bytes);
    }
    return files != NULL ? &files[number % CHUNK] : NULL;
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

/* Frees a zombie that only the caller can reach. Returns whether it did. */
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

void fan_file_sweep(void)
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
        fan_file_sweep();
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

/* Changes the generation. Only one thread at a time opens or closes a file. */
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
    renew(file); /* last, so that a thread that sees it sees everything above */
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

/* Frees the buffers of a file. Returns whether no other thread uses them. Uncompressed content has
 * none, and needs no locked instruction. */
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
