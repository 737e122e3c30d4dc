/* A replay keeps to its capacity and its totals add up, under each policy. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../csrc/policy/replay.h"
#include "../../csrc/policy/victims.h"
#include "check.h"

enum { ITEMS = 60, READS = 5000, EPOCH_READS = 50, ITEM_BYTES_MAX = 40 };

/* A trace with all that an oracle knows of it. */
struct trace {
    uint32_t items[READS];
    uint32_t next_uses[READS];
    uint32_t frequencies[ITEMS];
    uint64_t sizes[ITEMS];
    uint8_t lone[ITEMS];
    uint8_t hits[READS];
};

static struct trace *drawn(void)
{
    struct trace *trace = calloc(1, sizeof(*trace));
    uint32_t seed = 17, last[ITEMS];
    CHECK(trace != NULL);
    for (uint32_t item = 0; item < ITEMS; item++) {
        seed = seed * 1664525 + 1013904223;
        trace->sizes[item] = (seed >> 8) % (ITEM_BYTES_MAX + 1);
        trace->lone[item] = item % 16 == 0;
        last[item] = FAN_NEVER;
    }
    for (uint32_t read = READS; read-- > 0;) {
        seed = seed * 1664525 + 1013904223;
        uint32_t item = (seed >> 8) % ITEMS;
        trace->items[read] = item;
        trace->next_uses[read] = last[item];
        trace->frequencies[item]++;
        last[item] = read;
    }
    return trace;
}

/* What lies in the cache at the end is what came and did not go. */
static void check_totals(const struct trace *trace, const struct fan_replay_totals *totals,
                         uint64_t capacity_bytes)
{
    uint64_t hits = 0, bytes = 0;
    for (uint32_t read = 0; read < READS; read++) {
        hits += trace->hits[read];
        bytes += trace->sizes[trace->items[read]];
    }
    CHECK(totals->hits == hits && totals->hits + totals->misses == READS);
    CHECK(totals->hit_bytes + totals->missed_bytes == bytes);
    CHECK(totals->peak_bytes <= capacity_bytes);
    CHECK(totals->admissions <= totals->misses && totals->evictions <= totals->admissions);
    CHECK(totals->admitted_bytes - totals->evicted_bytes <= totals->peak_bytes);
}

static void test_policy(uint32_t policy, uint64_t capacity_bytes, bool count_down)
{
    struct trace *trace = drawn();
    struct fan_replay_totals totals;
    struct fan_replay replay = {.read_count = READS,
                                .items = trace->items,
                                .sizes = trace->sizes,
                                .capacity_bytes = capacity_bytes,
                                .next_uses = trace->next_uses,
                                .frequencies = trace->frequencies,
                                .lone = policy == FAN_POLICY_REUSE ? trace->lone : NULL,
                                .epoch_reads = EPOCH_READS,
                                .hits = trace->hits,
                                .item_count = ITEMS,
                                .policy = policy,
                                .count_down = count_down};
    CHECK(fan_replay_run(&replay, &totals) == 0);
    check_totals(trace, &totals, capacity_bytes);
    for (uint32_t item = 0; item < ITEMS && count_down; item++)
        CHECK(trace->frequencies[item] == 0);
    free(trace);
}

int main(void)
{
    for (uint32_t policy = 0; policy <= FAN_POLICY_BELADY; policy++) {
        for (uint64_t bytes = 0; bytes < (uint64_t)ITEMS * ITEM_BYTES_MAX; bytes = 3 * bytes + 1)
            test_policy(policy, bytes, false);
    }
    test_policy(FAN_POLICY_FREQUENCY, 300, true);
    printf("test_replay: no fault\n");
    return 0;
}
