/* The files that any live session has open, gathered at one moment. */
#ifndef FAN_NODE_OPENSET_H
#define FAN_NODE_OPENSET_H

#include <stdbool.h>
#include <stdint.h>

#include "blockcache.h"

/* A table with linear probing, 0 where free; it grows to what the fullest moment needed. */
struct fan_openset {
    uint64_t *files;
    uint64_t capacity;
    uint64_t count;
};

/* Reads the open files of all live sessions. 0 or -ENOMEM, and then nothing is known. */
int fan_openset_gather(struct fan_openset *set, const struct fan_segment *segment,
                       const struct fan_live *live);
bool fan_openset_has(const struct fan_openset *set, uint64_t file);
void fan_openset_fini(struct fan_openset *set);

#endif
