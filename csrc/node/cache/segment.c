#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../format/shm_format.h"
#include "../../policy/victims.h"

/* ENTRIES_PER_BUCKET, GROWN_PER_BUCKET: at most so many entries for each bucket, at first and when
 * the cache is as large as it may become: a quarter and half of the bucket's places, so that hardly
 * any bucket overflows. PASSING_SHARE: room for blocks that pass through, as a part of the room for
 * those that stay; PASSING_BLOCKS: at least so many. GAPS_SHARE: room for the gaps between blocks
 * of different lengths, where blocks replace each other; FEW_SHARE: where they do not. GROWTH: how
 * many times as large a cache may become; its table of buckets is made for that at once. */
enum {
    ENTRIES_PER_BUCKET = 2,
    GROWN_PER_BUCKET = 4,
    PASSING_SHARE = 16,
    PASSING_BLOCKS = 4,
    GAPS_SHARE = 10,
    FEW_SHARE = 256,
    GROWTH = 4
};

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + FAN_CACHE_GRANULE_BYTES - 1) & ~(uint64_t)(FAN_CACHE_GRANULE_BYTES - 1);
}

static uint32_t buckets_for(uint64_t entry_count, uint64_t most)
{
    uint32_t count = 1;
    while ((uint64_t)count * ENTRIES_PER_BUCKET < entry_count ||
           (uint64_t)count * GROWN_PER_BUCKET < most)
        count *= 2;
    return count;
}

/* Computes where the parts of a segment begin, and its size. entry_count: at its largest. */
static void lay_out(struct fan_cache_header *header, uint32_t bucket_count, uint64_t entry_count)
{
    header->session_count = FAN_SESSIONS_MAX;
    header->bucket_count = bucket_count;
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

/* Returns the granules for so much content, without those for blocks that pass through. */
static uint64_t granules_for(uint64_t content_bytes, uint32_t policy)
{
    uint64_t count = whole_pages(content_bytes) / FAN_CACHE_GRANULE_BYTES;
    if (policy == FAN_POLICY_BELADY || policy == FAN_POLICY_MINIO)
        count += count / (policy == FAN_POLICY_BELADY ? GAPS_SHARE : FEW_SHARE);
    return count;
}

/* Lays out a segment for so much content. Blocks that pass through have room of their own where
 * others stay for good. Every granule may be a block by itself, so each needs an entry. Returns 0
 * or -EINVAL. */
static int choose_layout(struct fan_segment *segment, struct fan_cache_header *header,
                         uint64_t content_bytes, uint64_t most_bytes)
{
    uint64_t count = granules_for(content_bytes, header->policy), passing = 0;
    uint64_t most = granules_for(most_bytes, header->policy);
    if (count < (uint64_t)FAN_CACHE_BLOCKS_MIN * FAN_BLOCK_GRANULES || count > UINT32_MAX / 4)
        return -EINVAL;
    if (header->policy == FAN_POLICY_BELADY || header->policy == FAN_POLICY_MINIO) {
        passing = count / PASSING_SHARE;
        if (passing < PASSING_BLOCKS * FAN_BLOCK_GRANULES)
            passing = PASSING_BLOCKS * FAN_BLOCK_GRANULES;
    }
    most = most < count * GROWTH ? most : count * GROWTH;
    most = most > count && most <= UINT32_MAX / 4 ? most : count;
    lay_out(header, buckets_for(count + passing, most + passing), most + passing);
    segment->passing = (uint32_t)passing;
    segment->entry_count = (uint32_t)(count + passing);
    segment->most = (uint32_t)(most + passing);
    return 0;
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

static uint64_t offset_of(const struct fan_segment *segment, const void *part)
{
    return (uint64_t)((const char *)part - segment->base);
}

int fan_segment_take_session(struct fan_segment *segment, uint32_t number)
{
    return take(segment->fd, offset_of(segment, &segment->sessions[number]),
                sizeof(*segment->sessions));
}

/* Returns how many bytes the buckets take, and the entries up to number `count`. */
static uint64_t table_bytes(const struct fan_segment *segment, uint32_t count)
{
    return (uint64_t)((const char *)&segment->entries[count] - (const char *)segment->buckets);
}

uint32_t fan_segment_grow(struct fan_segment *segment, uint64_t content_bytes)
{
    uint64_t more = granules_for(content_bytes, segment->header->policy);
    uint64_t room = segment->most - segment->entry_count;
    more = more < room ? more : room;
    uint64_t start = offset_of(segment, &segment->entries[segment->entry_count]);
    if (more == 0 || take(segment->fd, start, more * sizeof(*segment->entries)) != 0)
        return 0;
    segment->entry_count += (uint32_t)more;
    return (uint32_t)more;
}

uint64_t fan_segment_used(const struct fan_segment *segment)
{
    return whole_pages(table_bytes(segment, segment->entry_count)) +
           (uint64_t)segment->entry_count * FAN_CACHE_GRANULE_BYTES;
}

/* Allocates the header, the tables, and the fewest blocks with which the cache works: some of those
 * that pass through, too, because blocks that stay for good must not take all memory. */
static int take_least(struct fan_segment *segment)
{
    uint32_t passing = segment->passing > 0 ? PASSING_BLOCKS * FAN_BLOCK_GRANULES : 0;
    segment->taken = calloc(segment->most / FAN_BLOCK_GRANULES + 1, 1);
    int rc = segment->taken != NULL ? take(segment->fd, 0, sizeof(*segment->header)) : -ENOMEM;
    if (rc == 0)
        rc = take(segment->fd, offset_of(segment, segment->buckets),
                  table_bytes(segment, segment->entry_count));
    if (rc == 0)
        rc = fan_segment_take(segment, 0, FAN_CACHE_BLOCKS_MIN * FAN_BLOCK_GRANULES);
    if (rc == 0 && passing > 0)
        rc = fan_segment_take(segment, segment->most - segment->passing, passing);
    return rc;
}

/* Returns whether clients must report opens. Under belady the blocks that pass through need it. */
static bool follows_opens(enum fan_policy policy)
{
    return fan_policy_follows_opens(policy) || policy == FAN_POLICY_BELADY;
}

int fan_segment_init(struct fan_segment *segment, uint64_t content_bytes, uint64_t most_bytes,
                     uint32_t policy)
{
    struct fan_cache_header header = {.version = FAN_CACHE_VERSION,
                                      .layout_id = FAN_CACHE_LAYOUT_ID,
                                      .state = FAN_JOB_SERVING,
                                      .policy = policy,
                                      .follows_opens = follows_opens((enum fan_policy)policy)};
    memcpy(header.magic, FAN_CACHE_MAGIC, sizeof(header.magic));
    struct fan_segment made = {0};
    int rc = choose_layout(&made, &header, content_bytes, most_bytes);
    if (rc != 0)
        return rc;
    int fd = make_file(header.segment_bytes);
    if (fd < 0)
        return fd;
    void *base = mmap(NULL, header.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        rc = -errno;
        close(fd);
        return rc;
    }
    made.fd = fd;
    made.base = base;
    made.bytes = header.segment_bytes;
    *segment = made;
    point_into(segment, &header);
    rc = take_least(segment);
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
