#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../format/shm_format.h"
#include "../../policy/victims.h"

/* PASSING_SHARE: room for blocks that pass through, as a part of the room for those that stay;
 * PASSING_BLOCKS: at least so many. GAPS_SHARE: room for the gaps between blocks of different
 * lengths, where blocks replace each other; FEW_SHARE: where they do not. */
enum {
    SESSION_SHARE = 8,
    ENTRIES_PER_BUCKET = 2,
    PASSING_SHARE = 16,
    PASSING_BLOCKS = 4,
    GAPS_SHARE = 10,
    FEW_SHARE = 256
};

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + FAN_CACHE_GRANULE_BYTES - 1) & ~(uint64_t)(FAN_CACHE_GRANULE_BYTES - 1);
}

/* Returns the number of sessions for a cache of this size: their memory is at most an eighth of the
 * cache, because a small cache has few clients. */
static uint32_t sessions_for(uint64_t content_bytes)
{
    uint64_t count = content_bytes / SESSION_SHARE / sizeof(struct fan_session);
    if (count < FAN_SESSIONS_MIN)
        return FAN_SESSIONS_MIN;
    return count < FAN_SESSIONS_MAX ? (uint32_t)count : FAN_SESSIONS_MAX;
}

/* Returns the number of buckets: with all entries in use, at most a quarter of their places are
 * taken, so that hardly any bucket overflows. */
static uint32_t buckets_for(uint64_t entry_count)
{
    uint32_t count = 1;
    while ((uint64_t)count * ENTRIES_PER_BUCKET < entry_count)
        count *= 2;
    return count;
}

/* Computes where the parts of a segment begin, and its size. */
static void lay_out(struct fan_cache_header *header, uint64_t content_bytes, uint64_t entry_count)
{
    header->session_count = sessions_for(content_bytes);
    header->bucket_count = buckets_for(entry_count);
    header->entry_count = (uint32_t)entry_count;
    header->sessions_offset = whole_pages(sizeof(*header));
    header->buckets_offset =
        header->sessions_offset + whole_pages(header->session_count * sizeof(struct fan_session));
    header->entries_offset =
        header->buckets_offset + whole_pages(header->bucket_count * sizeof(struct fan_bucket));
    header->data_offset =
        header->entries_offset + whole_pages(entry_count * sizeof(struct fan_cache_entry));
    header->segment_bytes = header->data_offset + entry_count * FAN_CACHE_GRANULE_BYTES;
}

/* Lays out a segment for so much content. Blocks that pass through have room of their own where
 * others stay for good. Every granule may be a block by itself, so each needs an entry. Returns the
 * granules for blocks that pass through, or -EINVAL. */
static int64_t choose_layout(struct fan_cache_header *header, uint64_t content_bytes,
                             enum fan_policy policy)
{
    uint64_t count = whole_pages(content_bytes) / FAN_CACHE_GRANULE_BYTES, passing = 0;
    if (count < (uint64_t)FAN_CACHE_BLOCKS_MIN * FAN_BLOCK_GRANULES || count > UINT32_MAX / 4)
        return -EINVAL;
    if (policy == FAN_POLICY_BELADY || policy == FAN_POLICY_MINIO) {
        count += count / (policy == FAN_POLICY_BELADY ? GAPS_SHARE : FEW_SHARE);
        passing = count / PASSING_SHARE;
        if (passing < PASSING_BLOCKS * FAN_BLOCK_GRANULES)
            passing = PASSING_BLOCKS * FAN_BLOCK_GRANULES;
    }
    lay_out(header, content_bytes, count + passing);
    return (int64_t)passing;
}

/* Allocates memory for a part of the file. If the kernel cannot do that in advance, pages are
 * allocated when they are touched. */
static int take(int fd, uint64_t offset, uint64_t bytes)
{
    int rc;
    do {
        rc = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 || errno == EOPNOTSUPP || errno == ENOSYS ? 0 : -ENOMEM;
}

static int make_file(uint64_t bytes)
{
    int fd = memfd_create("fanstore-cache", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

static void point_into(struct fan_segment *segment, const struct fan_cache_header *header)
{
    segment->header = (struct fan_cache_header *)segment->base;
    segment->sessions = (void *)(segment->base + header->sessions_offset);
    segment->buckets = (void *)(segment->base + header->buckets_offset);
    segment->entries = (void *)(segment->base + header->entries_offset);
    segment->data_offset = header->data_offset;
    segment->session_count = header->session_count;
    segment->bucket_count = header->bucket_count;
    segment->entry_count = header->entry_count;
}

/* Allocates the memory of block number `number`; the last one may be shorter. */
static int take_data(struct fan_segment *segment, uint32_t number)
{
    uint64_t start = segment->data_offset + (uint64_t)number * FAN_CACHE_BLOCK_BYTES;
    uint64_t left = segment->bytes - start;
    if (segment->taken[number])
        return 0;
    int rc = take(segment->fd, start, left < FAN_CACHE_BLOCK_BYTES ? left : FAN_CACHE_BLOCK_BYTES);
    segment->taken[number] = rc == 0;
    return rc;
}

int fan_segment_take(struct fan_segment *segment, uint32_t first_granule, uint32_t count)
{
    uint32_t last = (first_granule + count - 1) / FAN_BLOCK_GRANULES;
    int rc = 0;
    for (uint32_t n = first_granule / FAN_BLOCK_GRANULES; n <= last && rc == 0; n++)
        rc = take_data(segment, n);
    return rc;
}

/* Allocates everything before the data, and the fewest blocks with which the cache works: some of
 * those that pass through, too, because blocks that stay for good must not take all memory. */
static int take_least(struct fan_segment *segment)
{
    uint32_t passing = segment->passing > 0 ? PASSING_BLOCKS * FAN_BLOCK_GRANULES : 0;
    segment->taken = calloc(segment->entry_count / FAN_BLOCK_GRANULES + 1, 1);
    int rc = segment->taken != NULL ? take(segment->fd, 0, segment->data_offset) : -ENOMEM;
    if (rc == 0)
        rc = fan_segment_take(segment, 0, FAN_CACHE_BLOCKS_MIN * FAN_BLOCK_GRANULES);
    if (rc == 0 && passing > 0)
        rc = fan_segment_take(segment, segment->entry_count - segment->passing, passing);
    return rc;
}

/* Returns whether clients must report opens. Under belady the blocks that pass through need it. */
static bool follows_opens(enum fan_policy policy)
{
    return fan_policy_follows_opens(policy) || policy == FAN_POLICY_BELADY;
}

int fan_segment_init(struct fan_segment *segment, uint64_t content_bytes, uint32_t policy)
{
    struct fan_cache_header header = {.version = FAN_CACHE_VERSION,
                                      .layout_id = FAN_CACHE_LAYOUT_ID,
                                      .state = FAN_JOB_SERVING,
                                      .policy = policy,
                                      .follows_opens = follows_opens((enum fan_policy)policy)};
    memcpy(header.magic, FAN_CACHE_MAGIC, sizeof(header.magic));
    int64_t passing = choose_layout(&header, content_bytes, (enum fan_policy)policy);
    if (passing < 0)
        return (int)passing;
    int fd = make_file(header.segment_bytes);
    if (fd < 0)
        return fd;
    void *base = mmap(NULL, header.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    *segment = (struct fan_segment){
        .fd = fd, .base = base, .bytes = header.segment_bytes, .passing = (uint32_t)passing};
    point_into(segment, &header);
    int rc = take_least(segment);
    if (rc == 0)
        *segment->header = header;
    else
        fan_segment_fini(segment);
    return rc;
}

void fan_segment_fini(struct fan_segment *segment)
{
    if (segment->base == NULL)
        return;
    munmap(segment->base, segment->bytes);
    free(segment->taken);
    close(segment->fd);
    *segment = (struct fan_segment){.fd = -1};
}
