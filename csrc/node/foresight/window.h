/*
 * How many bytes orders may have ahead together: of the block cache, and of pages of this node's
 * disk, which are counted apart. An order that finds no room rests until a part of it is free, so
 * that much is brought at a time. A small part is kept for orders that have little ahead. Pure.
 */
#ifndef FAN_NODE_WINDOW_H
#define FAN_NODE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum fan_room { FAN_ROOM_CACHE, FAN_ROOM_PAGES, FAN_ROOMS };

/* most: of each room. taken: by all orders, of which there are `sharers`. */
struct fan_window {
    uint64_t most[FAN_ROOMS];
    uint64_t taken[FAN_ROOMS];
    uint32_t sharers;
};

/* What one order has taken. rests: the room of which there is none for it, FAN_ROOMS: it goes on.
 */
struct fan_window_part {
    uint64_t taken[FAN_ROOMS];
    enum fan_room rests;
};

void fan_window_join(struct fan_window *window, struct fan_window_part *part);
void fan_window_leave(struct fan_window *window);

void fan_window_take(struct fan_window *window, struct fan_window_part *part, enum fan_room room,
                     uint64_t bytes);
void fan_window_give(struct fan_window *window, struct fan_window_part *part, enum fan_room room,
                     uint64_t bytes);

/* Whether so many bytes more may be ahead; if not, the order rests. full: one that comes before it
 * found no room, which is not to be taken from that. */
bool fan_window_admit(const struct fan_window *window, struct fan_window_part *part,
                      enum fan_room room, uint64_t bytes, bool full);

/* Has an order go on where there is room for it again. own: of its bytes some were read just now.
 */
void fan_window_wake(const struct fan_window *window, struct fan_window_part *part, bool own);

#endif
