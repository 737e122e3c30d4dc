#include "window.h"

/* WAKE_SHARE: the part that is free before resting orders go on. FLOOR_SHARE: the part that is kept
 * for orders with little ahead, evenly. */
enum { WAKE_SHARE = 4, FLOOR_SHARE = 4 };

void fan_window_join(struct fan_window *window, struct fan_window_part *part)
{
    *part = (struct fan_window_part){.rests = FAN_ROOMS};
    window->sharers++;
}

void fan_window_leave(struct fan_window *window)
{
    window->sharers--;
}

void fan_window_take(struct fan_window *window, struct fan_window_part *part, enum fan_room room,
                     uint64_t bytes)
{
    window->taken[room] += bytes;
    part->taken[room] += bytes;
}

void fan_window_give(struct fan_window *window, struct fan_window_part *part, enum fan_room room,
                     uint64_t bytes)
{
    window->taken[room] -= bytes;
    part->taken[room] -= bytes;
}

/* What an order may have ahead however much the others have. */
static uint64_t floor_of(const struct fan_window *window, enum fan_room room)
{
    return window->most[room] / FLOOR_SHARE / window->sharers;
}

/* What is longer than half of all waits until half is free. */
static bool fits(const struct fan_window *window, enum fan_room room, uint64_t bytes)
{
    uint64_t most = window->most[room], needed = bytes < most / 2 ? bytes : most / 2;
    return window->taken[room] + needed <= most;
}

bool fan_window_admit(const struct fan_window *window, struct fan_window_part *part,
                      enum fan_room room, uint64_t bytes, bool full)
{
    if ((!full && fits(window, room, bytes)) || part->taken[room] + bytes <= floor_of(window, room))
        return true;
    part->rests = room;
    return false;
}

void fan_window_wake(const struct fan_window *window, struct fan_window_part *part, bool own)
{
    enum fan_room room = part->rests;
    if (room == FAN_ROOMS)
        return;
    uint64_t most = window->most[room];
    if (window->taken[room] <= most - most / WAKE_SHARE ||
        (own && part->taken[room] < floor_of(window, room)))
        part->rests = FAN_ROOMS;
}
