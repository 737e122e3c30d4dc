#include "lanes.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "../common/segment_check.h"

enum { WORDS = sizeof(struct fan_counters) / sizeof(uint64_t), TRIES = 100, STEP_NS = 100000 };

_Static_assert(sizeof(struct fan_lane) == 2048, "lanes lie on cache lines of their own");
_Static_assert(sizeof(struct fan_counters) % sizeof(uint64_t) == 0, "counters are words");

struct lanes {
    struct fan_trace *trace;
    struct fan_lane *lanes;
};

static int find(const void *segment, uint64_t bytes, struct lanes *found)
{
    const struct fan_job_header *job = segment;
    if (!fan_is_job_segment(job, bytes) ||
        !fan_segment_has(bytes, job->trace_offset, 1, sizeof(struct fan_trace)))
        return -EINVAL;
    char *base = (char *)segment;
    found->trace = (struct fan_trace *)(base + job->trace_offset);
    found->lanes = (struct fan_lane *)(base + found->trace->lanes_offset);
    bool inside = fan_segment_has(bytes, found->trace->lanes_offset, found->trace->lane_count,
                                  sizeof(struct fan_lane));
    return inside ? 0 : -EINVAL;
}

static void add(struct fan_counters *to, const struct fan_counters *from)
{
    uint64_t *sums = (uint64_t *)to;
    const uint64_t *words = (const uint64_t *)from;
    for (unsigned i = 0; i < WORDS; i++)
        sums[i] += __atomic_load_n(&words[i], __ATOMIC_RELAXED);
}

static void sum(const struct lanes *of, struct fan_counters *total)
{
    memset(total, 0, sizeof(*total));
    add(total, &of->trace->ended);
    for (uint32_t i = 0; i < of->trace->lane_count; i++)
        add(total, &of->lanes[i].counters);
}

int fan_trace_sum(const void *segment, uint64_t bytes, struct fan_counters *total)
{
    static const struct timespec step = {.tv_nsec = STEP_NS};
    struct lanes of;
    int rc = find(segment, bytes, &of);
    for (int i = 0; rc == 0 && i < TRIES; i++) {
        uint32_t before = __atomic_load_n(&of.trace->moves, __ATOMIC_ACQUIRE);
        sum(&of, total);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (before % 2 == 0 && before == __atomic_load_n(&of.trace->moves, __ATOMIC_RELAXED))
            return 0;
        nanosleep(&step, NULL);
    }
    return rc != 0 ? rc : -EAGAIN;
}

int fan_trace_retire(void *segment, uint64_t bytes, uint32_t number, struct fan_counters *counted)
{
    struct lanes of;
    int rc = find(segment, bytes, &of);
    if (rc != 0 || number == 0 || number >= of.trace->lane_count)
        return -EINVAL;
    struct fan_lane *lane = &of.lanes[number];
    add(counted, &lane->counters);
    __atomic_fetch_add(&of.trace->moves, 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* readers of a moved count also see `moves` change */
    add(&of.trace->ended, &lane->counters);
    memset(&lane->counters, 0, sizeof(lane->counters));
    __atomic_fetch_add(&of.trace->moves, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&lane->state, FAN_LANE_FREE, __ATOMIC_RELEASE);
    return 0;
}
