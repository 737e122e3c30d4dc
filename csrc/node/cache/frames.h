/*
 * The daemon's own knowledge of the entries of the cache segment, a frame each, and lists of
 * frames.
 */
#ifndef FAN_NODE_FRAMES_H
#define FAN_NODE_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

enum { FAN_NO_FRAME = UINT32_MAX };

struct fan_flight;
struct fan_reading;

/* The source of the bytes of a frame while it is filled. */
enum fan_source { FAN_FROM_RANK, FAN_FROM_SHARED, FAN_SOURCES };

/* flight, rank or reading, deadline_ns: of the attempt that fills it, kept by attempts.c.
 * sibling_before, sibling: in the chain of its file, while its block can be found. previous, next:
 * in the list that it is in; a ready frame is in none but that of the unread ones. */
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
    uint32_t sending; /* replies to other ranks that are on their way out of it */
    uint32_t awaited; /* how many orders (../foresight/orders.h) are to come to it */
    uint32_t key;     /* of a block that stays (staying.h) */
    uint8_t state; /* enum fan_entry_state */
    uint8_t area;
    uint8_t source; /* enum fan_source */
    bool pinned;
    bool unread;
    bool replacing; /* it came in place of blocks whose next use is later */
};

struct fan_frames {
    uint32_t head;
    uint32_t tail;
    uint32_t count;
};

/* Adds a frame, which is in no list, behind or before all others; takes one out. */
void fan_frames_append(struct fan_frame *frames, struct fan_frames *list, uint32_t id);
void fan_frames_prepend(struct fan_frame *frames, struct fan_frames *list, uint32_t id);
void fan_frames_detach(struct fan_frame *frames, struct fan_frames *list, uint32_t id);

#endif
