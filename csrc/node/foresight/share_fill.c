#include "share_fill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../machine/shared.h"
#include "../storage/marks.h"
#include "../storage/keep_run.h"
#include "../storage/originals.h"

/* GAP_MAX_BYTES: between two records of a run, for alignment and for records outside this share.
 * RUN_BYTES, RUN_RECORDS: the most of a run; FIRST_BYTES: of the first. RUN_NS: how long a run
 * should take, because a program that comes meanwhile waits behind it. RUNS: at a time, of records
 * that nobody waits for, if nobody has read the shared file system for QUIET_NS; otherwise one.
 * FAR_BYTES: the most that is under way from buckets: it takes memory. */
enum {
    GAP_MAX_BYTES = 64 << 10,
    RUN_BYTES = 4 << 20,
    FIRST_BYTES = 256 << 10,
    RUN_RECORDS = 4096,
    RUN_NS = 10000000,
    RUNS = 4,
    QUIET_NS = 1000000000,
    FAR_BYTES = 128 << 20
};

/* next: the first record that was not begun. running: runs of the list that reader threads work on;
 * the list stays until they are done. */
struct list {
    struct fan_queued queued;
    uint64_t *records;
    uint64_t count;
    uint64_t next;
    uint32_t mount;
    uint32_t number;
    uint32_t running;
};

/* Records of a list that follow each other in a pack, and that one thread fetches. bytes: between
 * the first byte and the last. */
struct run {
    struct fan_reading reading;
    struct fan_share_fill *fill;
    struct list *list;
    enum fan_urgency urgency;
    uint32_t mount;
    uint64_t bytes;
    uint64_t took_ns;
    uint64_t count;
    uint64_t records[];
};

void fan_share_fill_init(struct fan_share_fill *fill, struct fan_mounts *mounts,
                         struct fan_readers *shared, struct fan_blockcache *cache,
                         const struct fan_live *live)
{
    *fill = (struct fan_share_fill){
        .run_bytes = FIRST_BYTES, .mounts = mounts, .shared = shared, .cache = cache, .live = live};
}

static void free_list(struct list *list)
{
    free(list->records);
    free(list);
}

void fan_share_fill_fini(struct fan_share_fill *fill)
{
    for (unsigned urgency = 0; urgency < FAN_URGENCIES; urgency++) {
        for (struct fan_queued *list; (list = fan_queue_take(&fill->lists[urgency])) != NULL;)
            free_list((struct list *)list);
    }
}

int fan_share_fill_add(struct fan_share_fill *fill, uint32_t mount, const uint64_t *records,
                       uint64_t count, enum fan_urgency urgency)
{
    struct list *list = malloc(sizeof(*list));
    uint64_t *copy = malloc((count + 1) * sizeof(*copy));
    if (list == NULL || copy == NULL) {
        free(list);
        free(copy);
        return -ENOMEM;
    }
    uint64_t sound = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (fan_mounts_has_content(fill->mounts, mount, records[i]))
            copy[sound++] = records[i];
    }
    *list = (struct list){
        .records = copy, .count = sound, .mount = mount, .number = ++fill->made % INT32_MAX + 1};
    fan_queue_put(&fill->lists[urgency], &list->queued);
    return (int)list->number;
}

static int check_kept(struct fan_share_fill *fill, uint32_t number)
{
    const struct fan_node_mount *mount = &fill->mounts->mounts[number];
    uint64_t most = mount->unchecked_count, count = 0;
    uint64_t *records = malloc((most + 1) * sizeof(*records));
    if (records == NULL)
        return -ENOMEM;
    for (uint64_t id = 0; count < most; id++) {
        if ((fan_relaxed64(&mount->unchecked[id / 64]) >> id % 64 & 1) != 0)
            records[count++] = id;
    }
    int rc = fan_share_fill_add(fill, number, records, count, FAN_AHEAD);
    free(records);
    return rc < 0 ? rc : 0;
}

int fan_share_fill_check_kept(struct fan_share_fill *fill)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < fill->mounts->count; i++) {
        if (fill->mounts->mounts[i].unchecked_count > 0)
            rc = check_kept(fill, i);
    }
    return rc;
}

static bool is_missing(const struct fan_share_fill *fill, const struct list *list, uint64_t i)
{
    return fan_share_is_missing(fill->mounts, list->mount, list->records[i]);
}

static bool is_far(const struct fan_share_fill *fill, uint32_t mount)
{
    return fan_mount_is_far(&fill->mounts->mounts[mount]);
}

/* Returns how much memory a run from a bucket takes while it comes; 0 for other runs. */
static uint64_t far_bytes(const struct fan_share_fill *fill, uint32_t mount, uint64_t bytes)
{
    const uint64_t most = FAN_OBJECT_PART_MAX_BYTES;
    return !is_far(fill, mount) ? 0 : bytes < most ? bytes : most;
}

/* Returns how many missing records, from the next one on, lie together; sets their bytes. */
static uint64_t run_length(const struct fan_share_fill *fill, const struct list *list,
                           uint64_t *bytes)
{
    const struct fan_index *index = &fill->mounts->mounts[list->mount].index;
    const struct fan_record *first = &index->records[list->records[list->next]];
    uint64_t end = first->offset + first->stored_size, count = 1;
    bool far = is_far(fill, list->mount);
    uint64_t most = far && fan_index_is_planned(index) ? 1 : RUN_RECORDS;
    uint64_t most_bytes = far ? RUN_BYTES : fill->run_bytes;
    while (list->next + count < list->count && count < most) {
        const struct fan_record *next = &index->records[list->records[list->next + count]];
        if (next->pack != first->pack || next->offset < first->offset ||
            next->offset > end + GAP_MAX_BYTES ||
            next->offset + next->stored_size > first->offset + most_bytes ||
            !is_missing(fill, list, list->next + count))
            break;
        end = next->offset + next->stored_size > end ? next->offset + next->stored_size : end;
        count++;
    }
    *bytes = end - first->offset;
    return count;
}

static int bring(struct fan_reading *reading)
{
    struct run *run = (struct run *)reading;
    uint64_t begun_ns = fan_now_ns();
    int rc = fan_keep_run(run->fill->mounts, run->mount, run->records, run->count);
    run->took_ns = fan_now_ns() - begun_ns;
    return rc;
}

/* Makes the next run as long as this one would have been in RUN_NS, but at most twice as long: a
 * file system may have had much of a run in its memory. */
static void pace(struct fan_share_fill *fill, const struct run *run)
{
    uint64_t most = run->bytes * 2 < RUN_BYTES ? run->bytes * 2 : RUN_BYTES;
    uint64_t due = run->took_ns > 0 ? run->bytes * RUN_NS / run->took_ns : most;
    fill->run_bytes = due < most ? due : most;
}

/* Handles the end of a run. If a record was damaged, drops its blocks from the cache, because they
 * came from the same file unchecked. */
static void brought(struct fan_node *node, struct fan_reading *reading)
{
    struct run *run = (struct run *)reading;
    struct fan_share_fill *fill = run->fill;
    (void)node;
    for (uint64_t i = 0; i < run->count; i++) {
        if (fan_mounts_is_damaged(fill->mounts, run->mount, run->records[i]))
            fan_blockcache_forget(fill->cache, fan_cache_file(run->mount, run->records[i]),
                                  fill->live);
    }
    fill->far_bytes -= far_bytes(fill, run->mount, run->bytes);
    if (reading->error == 0 && !is_far(fill, run->mount))
        pace(fill, run);
    fill->running[run->urgency]--;
    run->list->running--;
    free(run);
}

/* Gives the next run of a list to a reader thread. Returns whether that was possible. */
static bool begin(struct fan_share_fill *fill, struct list *list, enum fan_urgency urgency)
{
    uint64_t bytes, count = run_length(fill, list, &bytes);
    struct run *run = malloc(sizeof(*run) + count * sizeof(*run->records));
    if (run == NULL)
        return false;
    *run = (struct run){.reading = {.urgency = FAN_AHEAD, .read = bring, .done = brought},
                        .fill = fill,
                        .list = list,
                        .urgency = urgency,
                        .mount = list->mount,
                        .bytes = bytes,
                        .count = count};
    memcpy(run->records, list->records + list->next, count * sizeof(*run->records));
    if (fan_readers_give(fill->shared, &run->reading) != 0) {
        free(run);
        return false;
    }
    fill->far_bytes += far_bytes(fill, list->mount, bytes);
    fill->running[urgency]++;
    list->running++;
    list->next += count;
    return true;
}

/* Returns the first list with records that were not begun; frees lists that are complete. */
static struct list *next_list(struct fan_queue *lists)
{
    struct fan_queued *each = lists->first;
    while (each != NULL) {
        struct list *list = (struct list *)each;
        each = each->next;
        if (list->next < list->count)
            return list;
        if (list->running == 0) {
            fan_queue_remove(lists, &list->queued);
            free_list(list);
        }
    }
    return NULL;
}

/* Returns whether a run may begin that nobody waits for: the shared file system has nothing else to
 * do for this node. */
static bool is_idle(struct fan_share_fill *fill, uint64_t now_ns)
{
    uint32_t running = fill->running[FAN_AHEAD];
    if (fan_readers_under_way(fill->shared) > running) {
        fill->wanted_ns = now_ns;
        return false;
    }
    return running == 0 || (running < RUNS && now_ns > fill->wanted_ns + QUIET_NS);
}

static bool may_begin(struct fan_share_fill *fill, const struct list *list,
                      enum fan_urgency urgency, uint64_t now_ns)
{
    if (is_far(fill, list->mount) && fill->far_bytes >= FAR_BYTES)
        return false;
    if (urgency == FAN_DEMAND)
        return !fan_share_fill_is_busy(fill);
    return is_far(fill, list->mount) ? fill->running[FAN_AHEAD] < fill->shared->ahead_most / 2
                                     : is_idle(fill, now_ns);
}

/* Begins runs of the lists of one urgency. Returns whether more records are left to look at. */
static bool advance(struct fan_share_fill *fill, enum fan_urgency urgency, uint64_t now_ns)
{
    for (unsigned looked = 0;; looked++) {
        struct list *list = next_list(&fill->lists[urgency]);
        if (list == NULL || !may_begin(fill, list, urgency, now_ns))
            return false;
        if (looked == RUN_RECORDS)
            return true;
        if (!is_missing(fill, list, list->next))
            list->next++;
        else if (!begin(fill, list, urgency))
            return false;
    }
    return false;
}

bool fan_share_fill_advance(struct fan_share_fill *fill, uint64_t now_ns)
{
    bool more = advance(fill, FAN_DEMAND, now_ns);
    return advance(fill, FAN_AHEAD, now_ns) || more;
}

bool fan_share_fill_goes_on(const struct fan_share_fill *fill, uint32_t number)
{
    for (unsigned urgency = 0; urgency < FAN_URGENCIES; urgency++) {
        const struct fan_queued *each = fill->lists[urgency].first;
        while (each != NULL && ((const struct list *)each)->number != number)
            each = each->next;
        if (each != NULL)
            return true;
    }
    return false;
}
