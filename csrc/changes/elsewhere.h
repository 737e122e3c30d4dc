/*
 * Changes of names that another rank keeps: a client of this rank begins one in this rank's names
 * segment, has that rank's core make it, by way of this rank's core, and this core notes it here.
 * So the daemon finds in its log all that its programs did, in order, wherever the names are; and
 * can wait until nothing is under way. Whether a client is killed makes no difference from `begin`
 * on.
 */
#ifndef FAN_CHANGES_ELSEWHERE_H
#define FAN_CHANGES_ELSEWHERE_H

#include "change.h"

/* A change begins: its object is filled in, and the rank that is to make it, in `home` (of
 * PUBLISHED alone). The segment is the caller's until `begun`, before which it hands the change to
 * its core. false: the daemon is to be asked. */
bool fan_elsewhere_begin(struct fan_changer *changer, struct fan_change *change, uint32_t *home);
void fan_elsewhere_begun(struct fan_changer *changer);

/* For the core: notes a change as `home` has made it. false: the log has no room. */
bool fan_elsewhere_note(struct fan_changer *changer, struct fan_change *change, const char *path,
                        const char *other, uint32_t home);

/* For the core: one is over, whether or not it was made. */
void fan_elsewhere_end(const struct fan_names *names);

/* How many are under way. */
uint64_t fan_elsewhere_under_way(const struct fan_names *names);

#endif
