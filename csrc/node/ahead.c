#include "ahead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inner.h"
#include "machine/shared.h"
#include "storage/run.h"
#include "storage/marks.h"

/* Bytes between two records of a run: alignment, and what is not of this share. */
enum { GAP_MAX_BYTES = 64 << 10, RUN_BYTES = 4 << 20, RUN_RECORDS = 4096, RUNS = 2 };

/* The records of a list from `first` on that one thread brings. */
struct run {
    struct fan_reading reading;
    struct fan_mounts *mounts;
    struct fan_ahead_list *list;
    uint32_t mount;
    uint64_t count;
    uint64_t records[];
};

void fan_ahead_init(struct fan_ahead *ahead)
{
    *ahead = (struct fan_ahead){.most = RUNS};
    ahead->end = &ahead->first;
}

static void drop(struct fan_ahead *ahead, struct fan_ahead_list **at)
{
    struct fan_ahead_list *list = *at;
    *at = list->after;
    if (*at == NULL)
        ahead->end = at;
    free(list->records);
    free(list);
}

void fan_ahead_fini(struct fan_ahead *ahead)
{
    while (ahead->first != NULL)
        drop(ahead, &ahead->first);
}

/* NULL: there is no memory. */
static struct fan_ahead_list *make_list(struct fan_node *node, uint32_t mount,
                                        const uint64_t *records, uint64_t count)
{
    struct fan_ahead_list *list = malloc(sizeof(*list));
    uint64_t *copy = malloc((count + 1) * sizeof(*copy));
    if (list == NULL || copy == NULL) {
        free(list);
        free(copy);
        return NULL;
    }
    uint64_t sound = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (fan_mounts_has_content(&node->mounts, mount, records[i]))
            copy[sound++] = records[i];
    }
    *list = (struct fan_ahead_list){.records = copy,
                                    .count = sound,
                                    .mount = mount,
                                    .number = ++node->ahead.lists % INT32_MAX + 1};
    return list;
}

int fan_ahead_append(struct fan_node *node, uint32_t mount, const uint64_t *records, uint64_t count)
{
    struct fan_ahead_list *list = make_list(node, mount, records, count);
    if (list == NULL)
        return -ENOMEM;
    *node->ahead.end = list;
    node->ahead.end = &list->after;
    return 0;
}

static int check_kept(struct fan_node *node, uint32_t number)
{
    const struct fan_node_mount *mount = &node->mounts.mounts[number];
    uint64_t most = mount->unchecked_count, count = 0;
    uint64_t *records = malloc((most + 1) * sizeof(*records));
    if (records == NULL)
        return -ENOMEM;
    for (uint64_t id = 0; count < most; id++) {
        if ((fan_relaxed64(&mount->unchecked[id / 64]) >> id % 64 & 1) != 0)
            records[count++] = id;
    }
    int rc = fan_ahead_append(node, number, records, count);
    free(records);
    return rc;
}

int fan_ahead_check_kept(struct fan_node *node)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < node->mounts.count; i++) {
        if (node->mounts.mounts[i].unchecked_count > 0)
            rc = check_kept(node, i);
    }
    return rc;
}

int fan_ahead_first(struct fan_node *node, uint32_t mount, const uint64_t *records, uint64_t count)
{
    struct fan_ahead_list *list = make_list(node, mount, records, count);
    struct fan_ahead_list **at = &node->ahead.first;
    if (list == NULL)
        return -ENOMEM;
    while (*at != NULL && (*at)->first)
        at = &(*at)->after;
    list->first = true;
    list->after = *at;
    if (list->after == NULL)
        node->ahead.end = &list->after;
    *at = list;
    return (int)list->number;
}

bool fan_ahead_goes_on(const struct fan_ahead *ahead, uint32_t number)
{
    const struct fan_ahead_list *list = ahead->first;
    while (list != NULL && list->number != number)
        list = list->after;
    return list != NULL;
}

static bool is_missing(const struct fan_node *node, const struct fan_ahead_list *list, uint64_t i)
{
    return fan_share_is_missing(&node->mounts, list->mount, list->records[i]);
}

/* How many records from the next one on lie together and are missing. */
static uint64_t run_length(const struct fan_node *node, const struct fan_ahead_list *list)
{
    const struct fan_index *index = &node->mounts.mounts[list->mount].index;
    const struct fan_record *first = &index->records[list->records[list->next]];
    uint64_t end = first->offset + first->stored_size, count = 1;
    while (list->next + count < list->count && count < RUN_RECORDS) {
        const struct fan_record *next = &index->records[list->records[list->next + count]];
        if (next->pack != first->pack || next->offset < first->offset ||
            next->offset > end + GAP_MAX_BYTES ||
            next->offset + next->stored_size > first->offset + RUN_BYTES ||
            !is_missing(node, list, list->next + count))
            break;
        end = next->offset + next->stored_size > end ? next->offset + next->stored_size : end;
        count++;
    }
    return count;
}

static int bring(struct fan_reading *reading)
{
    const struct run *run = (const struct run *)reading;
    return fan_keep_run(run->mounts, run->mount, run->records, run->count);
}

/* What was cached of a record before it was found to be damaged came from there, unchecked. */
static void brought(struct fan_node *node, struct fan_reading *reading)
{
    struct run *run = (struct run *)reading;
    for (uint64_t i = 0; i < run->count; i++) {
        if (fan_mounts_is_damaged(&node->mounts, run->mount, run->records[i]))
            fan_blockcache_forget(&node->cache, fan_cache_file(run->mount, run->records[i]),
                                  &node->sessions.live);
    }
    node->ahead.running--;
    run->list->running--;
    free(run);
}

/* Hands the next run of a list to a thread. Whether that was possible. */
static bool begin(struct fan_node *node, struct fan_ahead_list *list)
{
    uint64_t count = run_length(node, list);
    struct run *run = malloc(sizeof(*run) + count * sizeof(*run->records));
    if (run == NULL)
        return false;
    *run = (struct run){.reading = {.urgency = FAN_AHEAD, .read = bring, .done = brought},
                        .mounts = &node->mounts,
                        .list = list,
                        .mount = list->mount,
                        .count = count};
    memcpy(run->records, list->records + list->next, count * sizeof(*run->records));
    if (fan_readers_give(&node->shared, &run->reading) != 0) {
        free(run);
        return false;
    }
    node->ahead.running++;
    list->running++;
    list->next += count;
    return true;
}

bool fan_ahead_advance(struct fan_node *node)
{
    struct fan_ahead *ahead = &node->ahead;
    struct fan_ahead_list **at = &ahead->first;
    for (unsigned looked = 0; *at != NULL && ahead->running < ahead->most; looked++) {
        struct fan_ahead_list *list = *at;
        if (looked == RUN_RECORDS)
            return true;
        if (list->next == list->count && list->running == 0)
            drop(ahead, at);
        else if (list->next == list->count)
            at = &list->after;
        else if (!is_missing(node, list, list->next))
            list->next++;
        else if (!begin(node, list))
            return false;
    }
    return false;
}

bool fan_ahead_is_done(const struct fan_ahead *ahead)
{
    return ahead->first == NULL;
}
