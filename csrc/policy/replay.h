/* Replays a sequence of reads on a cache without content (./holdings.h). Pure. */
#pragma once

#include <stdint.h>

/* cffi: begin */
/* items: the item of each read, less than item_count. sizes: the bytes of each item; NULL if each
 * has item_bytes. next_uses (reuse, belady): for each read, the place of the next read of its item,
 * or UINT32_MAX. frequencies (frequency): for each item, how often it is read; with count_down each
 * read subtracts one. epoch_reads (reuse): the number of reads in an epoch. lone (reuse): for each
 * item, whether no other node has a copy, so that it is evicted only if room is needed; NULL if
 * each item has another copy. hits: for each read, whether it was a hit. */
struct fan_replay {
    uint64_t read_count;
    const uint32_t *items;
    const uint64_t *sizes;
    uint64_t item_bytes;
    uint64_t capacity_bytes;
    const uint32_t *next_uses;
    uint32_t *frequencies;
    const uint8_t *lone;
    uint64_t epoch_reads;
    uint8_t *hits;
    uint32_t item_count;
    uint32_t policy;
    uint32_t count_down;
};

struct fan_replay_totals {
    uint64_t hits;
    uint64_t hit_bytes;
    uint64_t misses;
    uint64_t missed_bytes;
    uint64_t admissions;
    uint64_t admitted_bytes;
    uint64_t evictions;
    uint64_t evicted_bytes;
    uint64_t peak_bytes; /* the most bytes that it held at once */
};

/* Runs the replay. Returns 0 or -ENOMEM. */
int fan_replay_run(const struct fan_replay *replay, struct fan_replay_totals *totals);
/* cffi: end */
