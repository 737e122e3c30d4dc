/*
 * Detects from the wants of clients which files of several blocks are read from front to back (a
 * run). A client that finds a block in the cache sends no want, so a run continues with the block
 * behind those that were fetched ahead. Random reads must not look like a run, because every block
 * that no client reads is fetched in vain. Pure.
 */
#pragma once

#include <stdint.h>

/* last: the last wanted block; next: the first block behind those fetched ahead. A want between
 * them is for a block that was still on its way. length: the number of wants in the run. */
struct fan_stream {
    uint64_t file;
    uint64_t last;
    uint64_t next;
    uint32_t session;
    uint32_t length;
};

enum { FAN_STREAMS = 256 };

struct fan_streams {
    struct fan_stream streams[FAN_STREAMS];
};

/* Records that a session wants a block. Returns how many of the following blocks to fetch ahead. */
uint32_t fan_streams_note(struct fan_streams *streams, uint32_t session, uint64_t file,
                          uint64_t block);
