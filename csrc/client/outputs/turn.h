/*
 * This process's turn with the names segment, to make one change of outputs itself: in the segment
 * (changes/change.h), or by having the home rank's core make it (changes/elsewhere.h). Signals are
 * blocked while it lasts, as a handler could want a change, too.
 */
#ifndef FAN_CLIENT_TURN_H
#define FAN_CLIENT_TURN_H

#include "../../changes/change.h"
#include "../content/far.h"

/* far: what is asked of another rank, if there is anything. */
struct fan_turn {
    struct fan_changer changer;
    struct fan_far far;
    uint64_t signals;
};

/* false: the daemon is to be asked. */
bool fan_turn_begin(struct fan_turn *turn, const struct fan_wish *wish);

/* 0, or FAN_NAMES_ASK with nothing done. */
int fan_turn_make(struct fan_turn *turn, struct fan_wish *wish);

/* Lets signals come again, and waits for another rank. `rc`: fan_turn_make's, or FAN_NAMES_ASK.
 * Returns what came of it, with wish->change as it is in the log. */
int fan_turn_end(struct fan_turn *turn, struct fan_wish *wish, int rc);

/* All three. */
int fan_turn(struct fan_wish *wish);

#endif
