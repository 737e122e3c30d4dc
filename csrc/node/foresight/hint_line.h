/*
 * The queue of hints, of limited length. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The blocks of a file from `block` up to `end`, exclusive. */
struct fan_hinted {
    uint64_t file;
    uint64_t block;
    uint64_t end;
};

enum { FAN_HINTS = 256 };

/* A ring: `count` hints from `first` on. */
struct fan_hints {
    struct fan_hinted line[FAN_HINTS];
    uint32_t first;
    uint32_t count;
};

/* Adds a hint to the queue. Returns false if the queue is full, or the hint covers no blocks. */
bool fan_hints_enter(struct fan_hints *hints, const struct fan_hinted *hinted);

/* Returns whether the queue has a hint for a block. */
bool fan_hints_have(const struct fan_hints *hints, uint64_t file, uint64_t block);
