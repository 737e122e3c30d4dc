/*
 * A frame, the daemon's own record of an entry of the cache segment, and lists of frames.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { FAN_NO_FRAME = UINT32_MAX };

struct fan_flight;
struct fan_reading;

/* Where the bytes of a frame come from. */
enum fan_source { FAN_FROM_RANK, FAN_FROM_SHARED, FAN_SOURCES };

/* piece: it is not a whole block, but begins at granule `from` of one. flight, rank or reading,
 * deadline_ns: of the attempt that fills the frame; attempts.c sets them. sibling_before, sibling:
 * its neighbours in the chain of its file, while clients can find its block. previous, next: its
 * neighbours in its list; a ready frame is in no list except that of unread frames. */
struct fan_frame {
    uint64_t file;
    uint64_t block;
    uint64_t deadline_ns;
    struct fan_flight *flight;
    struct fan_reading *reading;
    uint32_t previous;
    uint32_t next;
    uint32_t sibling_before;
    uint32_t sibling;
    uint32_t start; /* first granule of its area */
    uint32_t bytes;
    uint32_t generation;
    uint32_t rank;
    uint32_t sending; /* replies to other ranks that are sending its bytes */
    uint32_t awaited; /* how many orders (../foresight/orders.h) will read it */
    uint32_t key;     /* under belady, its rank among the staying blocks (staying.h) */
    uint8_t state; /* enum fan_entry_state */
    uint8_t area;
    uint8_t source; /* enum fan_source */
    uint8_t from;
    bool piece;
    bool pinned;
    bool unread;
};

struct fan_frames {
    uint32_t head;
    uint32_t tail;
    uint32_t count;
};

/* append and push add a frame that is in no list at the end or at the front of a list; detach
 * removes a frame from its list. */
void fan_frames_append(struct fan_frame *frames, struct fan_frames *list, uint32_t id);
void fan_frames_prepend(struct fan_frame *frames, struct fan_frames *list, uint32_t id);
void fan_frames_detach(struct fan_frame *frames, struct fan_frames *list, uint32_t id);
