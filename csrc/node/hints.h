/*
 * What clients will read soon, as they say themselves (cache_format.h). The hints of a session are
 * moved to a line; the first one of it goes on as others' blocks arrive. What finds no room is
 * dropped: in the line, in the cache, or beyond the share of the cache that hints may fill.
 */
#ifndef FAN_NODE_HINTS_H
#define FAN_NODE_HINTS_H

#include <stdbool.h>
#include <stdint.h>

struct fan_node;

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

/* Takes what clients have hinted at, begins what may be begun. Whether there was anything. */
bool fan_hints_advance(struct fan_node *node, uint64_t now_ns);

#endif
