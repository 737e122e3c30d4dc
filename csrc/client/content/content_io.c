#include "content_io.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "../../pack/codec.h"
#include "../../pack/content.h"
#include "../files/filetable.h"
#include "../files/moved.h"
#include "../job/packs.h"
#include "../machine/copy.h"
#include "decode.h"
#include "stored.h"

/* The most bytes that one call moves, as in the kernel (read(2), NOTES). */
#define READ_MAX_BYTES UINT64_C(0x7ffff000)

static int can_open(struct fan_file *file, enum fan_pack_copy copy)
{
    uint32_t pack = file->record->pack;
    if (fan_pack_fd(file->view, file->dataset, pack, copy) >= 0)
        return 0;
    int fd = fan_pack_open(file->view, pack, copy);
    if (fd >= 0)
        fan_sys_close(fd);
    return fd < 0 ? -EIO : 0;
}

static const char *map_neighbour(const struct fan_file *file)
{
    return fan_pack_map_neighbour(file->view, file->dataset, file->record->pack, file->id);
}

/* Reads of the file will come from a mapped pack; NULL: from the node daemon. */
static int use(struct fan_file *file, const char *base)
{
    file->data = base != NULL ? base + file->record->offset : NULL;
    return 0;
}

int fan_content_open(struct fan_file *file)
{
    const struct fan_record *record = file->record;
    int rc = fan_content_check(&file->dataset->index, record);
    if (rc == 0 && record->codec != FAN_CODEC_STORE)
        fan_codec_load(record->codec); /* if loading was deferred */
    if (rc != 0 || record->logical_size == 0)
        return rc;
    const char *base = fan_pack_map(file->view, file->dataset, record->pack);
    enum fan_bar bar = fan_view_bar(file->view, record->pack, file->id);
    if (__builtin_expect(bar == FAN_DAMAGED, 0))
        return fan_job.world_size > 1 ? 0 : -EIO;
    if (__builtin_expect(bar == FAN_UNCHECKED, 0))
        return use(file, map_neighbour(file));
    if (base != NULL)
        return use(file, base);
    switch (fan_view_place(file->view, record->pack)) {
    case FAN_PLACE_STAGED: /* if it could not be mapped */
        return can_open(file, FAN_PACK_STAGED);
    case FAN_PLACE_IN_PLACE:
        return can_open(file, FAN_PACK_SHARED);
    case FAN_PLACE_PARTIAL:
        base = fan_pack_map_partial(file->view, file->dataset, record->pack, file->id);
        return use(file, base != NULL ? base : map_neighbour(file));
    case FAN_PLACE_REMOTE:
        return use(file, map_neighbour(file));
    default:
        return -EIO;
    }
}

/* Returns how many of the requested bytes are inside the file. */
static uint64_t clamp(const struct fan_file *file, uint64_t bytes, int64_t offset)
{
    uint64_t size = file->record->logical_size;
    if ((uint64_t)offset >= size)
        return 0;
    uint64_t rest = size - (uint64_t)offset;
    if (bytes > READ_MAX_BYTES)
        bytes = READ_MAX_BYTES;
    return bytes < rest ? bytes : rest;
}

/* Copies as many bytes as possible before the bad page, as the kernel does. Returns -EFAULT if that
 * is none. */
static ssize_t copy_until_fault(char *to, const char *from, uint64_t bytes, int error)
{
    uint64_t done = 0;
    while (done < bytes) {
        uint64_t step = 4096 - (uintptr_t)(to + done) % 4096;
        if (step > bytes - done)
            step = bytes - done;
        if (fan_copy(to + done, from + done, step) != 0)
            return done > 0 ? (ssize_t)done : error;
        done += step;
    }
    return (ssize_t)done;
}

/* Reads a compressed file. Checks between blocks that the descriptor still stands for the same
 * file. */
static ssize_t read_compressed(struct fan_file *file, unsigned generation, char *to,
                               uint64_t offset, uint64_t bytes)
{
    if (file->data != NULL)
        return fan_decode_read(file, generation, to, offset, bytes);
    atomic_fetch_add(&file->waiting, 1);
    ssize_t got = fan_decode_read(file, generation, to, offset, bytes);
    atomic_fetch_sub(&file->waiting, 1);
    return got;
}

/* Returns whether orders name pieces of a file. */
static bool has_pieces(const struct fan_record *record)
{
    return record->logical_size > FAN_PIECES_ABOVE_BYTES && record->codec == FAN_CODEC_STORE;
}

static ssize_t read_inside(struct fan_file *file, unsigned generation, char *to, uint64_t offset,
                           uint64_t bytes)
{
    if (__builtin_expect(file->record->logical_size > FAN_TRACE_BLOCK_BYTES, 0))
        fan_trace_read(file->view->number, file->id, offset, bytes, has_pieces(file->record));
    if (file->record->codec != FAN_CODEC_STORE)
        return read_compressed(file, generation, to, offset, bytes);
    int rc = fan_stored_read(file, to, offset, bytes);
    if (__builtin_expect(rc == 0, 1))
        return (ssize_t)bytes;
    return file->data != NULL ? copy_until_fault(to, file->data + offset, bytes, rc) : rc;
}

static inline __attribute__((always_inline)) ssize_t counted(ssize_t got)
{
    if (got >= 0) {
        FAN_COUNT(reads, 1);
        FAN_COUNT(read_bytes, got);
    }
    return fan_count_error(got);
}

ssize_t fan_content_counted(ssize_t got)
{
    return counted(got);
}

/* Returns -EBADF if another thread has closed the descriptor during the read, because the bytes may
 * then be of any file. */
static inline __attribute__((always_inline)) ssize_t
unless_closed(const struct fan_file *file, unsigned generation, ssize_t got)
{
    atomic_thread_fence(memory_order_acquire);
    bool same = atomic_load_explicit(&file->generation, memory_order_relaxed) == generation;
    return __builtin_expect(same, 1) ? counted(got) : -EBADF;
}

ssize_t fan_content_unless_closed(const struct fan_file *file, unsigned generation, ssize_t got)
{
    return unless_closed(file, generation, got);
}

static unsigned generation_of(const struct fan_file *file)
{
    return atomic_load_explicit(&file->generation, memory_order_acquire);
}

ssize_t fan_content_pread(struct fan_file *file, void *to, size_t bytes, int64_t offset)
{
    unsigned generation = generation_of(file);
    if (offset < 0)
        return -EINVAL;
    uint64_t inside = clamp(file, bytes, offset);
    if (inside == 0)
        return 0;
    return unless_closed(file, generation,
                         read_inside(file, generation, to, (uint64_t)offset, inside));
}

/* Corrects the shared offset after a read that returned less than it had claimed, unless another
 * thread or process has moved the offset since. */
static void step_back(struct fan_slot *slot, int64_t offset, uint64_t claimed, ssize_t got)
{
    int64_t expected = offset + (int64_t)claimed;
    atomic_compare_exchange_strong(&slot->offset, &expected, offset + (got > 0 ? got : 0));
}

ssize_t fan_content_read(struct fan_file *file, void *to, size_t bytes)
{
    unsigned generation = generation_of(file);
    struct fan_slot *slot = file->slot;
    int64_t offset = atomic_load_explicit(&slot->offset, memory_order_relaxed);
    uint64_t inside;
    do {
        inside = clamp(file, bytes, offset);
        if (inside == 0)
            return offset < 0 ? fan_moved_read(file, to, bytes) : 0;
    } while (!atomic_compare_exchange_weak(&slot->offset, &offset, offset + (int64_t)inside));
    ssize_t got = generation_of(file) != generation
                      ? -EBADF
                      : unless_closed(file, generation,
                                      read_inside(file, generation, to, (uint64_t)offset, inside));
    if (__builtin_expect(got != (ssize_t)inside, 0))
        step_back(slot, offset, inside, got);
    return got;
}

/* Checks a vector as the kernel does. Returns the sum of its lengths, or -EINVAL. */
static int64_t vector_bytes(const struct iovec *vector, int count)
{
    if (count < 0 || count > IOV_MAX)
        return -EINVAL;
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        struct iovec probe; /* the list itself may be a bad address */
        if (fan_copy(&probe, &vector[i], sizeof(probe)) != 0)
            return -EFAULT;
        if (vector[i].iov_len > SSIZE_MAX || sum + vector[i].iov_len > SSIZE_MAX)
            return -EINVAL;
        sum += vector[i].iov_len;
    }
    return (int64_t)sum;
}

static ssize_t fill_vector(struct fan_file *file, const struct iovec *vector, int count,
                           int64_t offset)
{
    ssize_t done = 0;
    for (int i = 0; i < count; i++) {
        if (vector[i].iov_len == 0)
            continue;
        ssize_t got = fan_content_pread(file, vector[i].iov_base, vector[i].iov_len, offset + done);
        if (got < 0)
            return done > 0 ? done : got;
        done += got;
        if ((size_t)got < vector[i].iov_len)
            break;
    }
    return done;
}

ssize_t fan_content_preadv(struct fan_file *file, const struct iovec *vector, int count,
                           int64_t offset)
{
    int64_t bytes = vector_bytes(vector, count);
    if (bytes < 0)
        return bytes;
    return offset < 0 ? -EINVAL : fill_vector(file, vector, count, offset);
}

ssize_t fan_content_readv(struct fan_file *file, const struct iovec *vector, int count)
{
    int64_t bytes = vector_bytes(vector, count);
    if (bytes < 0)
        return bytes;
    struct fan_slot *slot = file->slot;
    int64_t offset = atomic_load_explicit(&slot->offset, memory_order_relaxed);
    uint64_t inside;
    do {
        if (offset < 0)
            return fan_moved_readv(file, vector, count);
        inside = clamp(file, (uint64_t)bytes, offset);
    } while (!atomic_compare_exchange_weak(&slot->offset, &offset, offset + (int64_t)inside));
    ssize_t got = fill_vector(file, vector, count, offset);
    if (got != (ssize_t)inside)
        step_back(slot, offset, inside, got);
    return got;
}

/* Returns the offset to which lseek(2) leads from `now`, or -errno. */
static int64_t destination(const struct fan_file *file, int64_t now, int64_t offset, int whence)
{
    int64_t size = (int64_t)file->record->logical_size, base = 0, to;
    switch (whence) {
    case SEEK_SET:
        break;
    case SEEK_CUR:
        base = now;
        break;
    case SEEK_END:
        base = size;
        break;
    case SEEK_DATA:
    case SEEK_HOLE:
        if (offset < 0 || offset >= size)
            return -ENXIO;
        base = whence == SEEK_HOLE ? size - offset : 0;
        break;
    default:
        return -EINVAL;
    }
    return __builtin_add_overflow(base, offset, &to) || to < 0 ? -EINVAL : to;
}

int64_t fan_content_seek(struct fan_file *file, int64_t offset, int whence)
{
    struct fan_slot *slot = file->slot;
    int64_t now = atomic_load(&slot->offset), to;
    do {
        if (now < 0)
            return fan_moved_seek(file, offset, whence);
        to = destination(file, now, offset, whence);
    } while (to >= 0 && to != now && !atomic_compare_exchange_weak(&slot->offset, &now, to));
    return to;
}

int64_t fan_content_offset(struct fan_file *file)
{
    int64_t offset = atomic_load_explicit(&file->slot->offset, memory_order_relaxed);
    return offset < 0 ? fan_moved_seek(file, 0, SEEK_CUR) : offset;
}
