/* A small dataset on several nodes of one process, joined by a loopback; for tests of csrc/node. */
#pragma once

#include <stdint.h>

#include "../../csrc/node/node.h"
#include "../../csrc/policy/victims.h"
#include "check.h"
#include "loopback.h"

enum {
    WORLD_FILES = 36,
    WORLD_PACKS = 6,
    WORLD_TINY_BYTES = 10 << 20, /* hardly more than the smallest cache there is */
    WORLD_LARGE_BYTES = 64 << 20
};

/* replicas: pack p is staged on ranks p, p + 1, ... of the world. shared: the shared file system
 * has all of them. partial: each rank keeps a share of the files, and none is there at first; with
 * `shared`. memory: the share is kept in the block cache instead of on the disk. claimed: each
 * rank's disk has all files of a job before, those that world_has_rotted says with a wrong byte;
 * with `partial`. copy_bytes: each rank's disk has room for so many bytes of other ranks' files. */
struct world_shape {
    uint32_t ranks;
    uint32_t replicas;
    uint64_t cache_bytes;
    uint64_t deadline_ms;
    enum fan_policy policy;
    int shared;
    int partial;
    int memory;
    int claimed;
    uint64_t copy_bytes;
};

struct world {
    struct world_shape shape;
    struct loopback *loopback; /* NULL: the nodes are alone */
    struct fan_node *nodes[LOOPBACK_RANKS];
};

/* Opens and starts the nodes; a rank in `absent` (a bit each) has none, the test plays it. */
void world_open(struct world *world, struct world_shape shape, unsigned absent);

/* Opens a rank that is absent, without its thread: the test has it take turns (thread.h). */
void world_open_still(struct world *world, uint32_t rank);

/* Stops and closes the nodes, all of which must have nothing outstanding. */
void world_close(struct world *world);

/* Files have the records 1 to WORLD_FILES; the root is 0. */
uint64_t world_file_bytes(uint64_t record);
uint32_t world_file_pack(uint64_t record);
uint64_t world_file_offset(uint64_t record);
const uint8_t *world_content(uint64_t record);

/* Whether `rank` has pack `pack`. */
int world_has(const struct world *world, uint32_t rank, uint32_t pack);

/* Marks a file damaged on a rank, as staging would. */
void world_damage(struct world *world, uint32_t rank, uint64_t record);

/* A file of one block whose pack rank 0 has not. */
uint64_t world_remote_file(const struct world *world);

struct loopback_knobs *world_knobs(struct world *world, uint32_t rank);

/* The rank whose share a file is, of a partial world; has it bring all of its share ahead. */
uint32_t world_keeper(const struct world *world, uint64_t record);
void world_fill_ahead(struct world *world, uint32_t rank);

int world_has_rotted(uint64_t record);

/* Where a rank keeps its share. */
void world_share_path(uint32_t rank, char path[4096]);

/* Where the job segment of a rank is. */
void world_segment_path(uint32_t rank, char path[4096]);

struct fan_node_stats world_stats(const struct world *world, uint32_t rank);

/* Begins an order of rank 0, of entries of the only mount, which must be taken. Returns its id. */
uint64_t world_begin_order(const struct world *world, const uint64_t *entries, uint64_t count);

void pause_ms(unsigned ms);

/* Waits until a condition holds; fails if it never does. */
#define EVENTUALLY(condition)                                                                      \
    do {                                                                                           \
        for (int steps = 0; !(condition); steps++) {                                               \
            CHECK(steps < 30000);                                                                  \
            pause_ms(1);                                                                           \
        }                                                                                          \
    } while (0)
