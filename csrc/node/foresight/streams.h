/*
 * Finds files of several blocks that are read from front to back, as far as the wants that come
 * here show it. A client that finds a block in the cache says nothing, so a run goes on with the
 * block behind those that were brought ahead. Random reads must not look like a run: each block
 * that nobody reads is one too many. Pure.
 */
#ifndef FAN_NODE_STREAMS_H
#define FAN_NODE_STREAMS_H

#include <stdint.h>

/* last: the block that was wanted last; next: the first one behind those brought ahead. What is
 * wanted between them was still under way. length: of the run, in wants. */
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

/* A session wants a block: how many of those behind it are to be brought ahead. */
uint32_t fan_streams_note(struct fan_streams *streams, uint32_t session, uint64_t file,
                          uint64_t block);

#endif
