/*
 * Names of outputs that another rank keeps, by way of the node daemons' cores: one round trip to
 * that rank, without its daemon's Python or this node's.
 */
#ifndef FAN_CLIENT_FAR_H
#define FAN_CLIENT_FAR_H

#include "../../changes/change.h"
#include "cache_view.h"

/* As fan_names_look, of rank `home`; FAN_NAMES_ASK for a link, too, and where no answer comes soon.
 */
int fan_far_look(uint32_t home, const struct fan_names_path *path, bool follow,
                 struct fan_output_attr *attr);

/* A change that another rank is asked to make. question: NULL before `prepare` and after `drop`. */
struct fan_far {
    struct fan_cache *cache;
    struct fan_question *question;
};

/* Takes a question for a change, with its paths. false: all are taken, or they are too long. */
bool fan_far_prepare(struct fan_far *far, const struct fan_wish *wish);

/* Asks it of `home`, with changes/elsewhere.h begun; or does not. Neither waits. */
void fan_far_ask(struct fan_far *far, uint32_t home, const struct fan_change *change);
void fan_far_drop(struct fan_far *far);

/* Waits for the answer. 0 with the change as it was made; FAN_NAMES_ASK: it was not; -EIO: the
 * daemon has gone, or says nothing. */
int fan_far_wait(struct fan_far *far, struct fan_change *change);

#endif
