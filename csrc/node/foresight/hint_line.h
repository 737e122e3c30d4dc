/*
 * The hints that wait to be followed, in a line of bounded length. Pure.
 */
#ifndef FAN_NODE_HINT_LINE_H
#define FAN_NODE_HINT_LINE_H

#include <stdbool.h>
#include <stdint.h>

/* Blocks of a file, from `block` on and before `end`. */
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

/* Adds to the line. False: it is full, or the hint is for nothing. */
bool fan_hints_enter(struct fan_hints *hints, const struct fan_hinted *hinted);

/* Whether a hint for a block stands in the line. */
bool fan_hints_have(const struct fan_hints *hints, uint64_t file, uint64_t block);

#endif
