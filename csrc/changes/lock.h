/*
 * Taking the names segment to change it: one thread at a time, which adds to the log. Signals are
 * to be blocked by a client. Nothing here allocates.
 */
#ifndef FAN_CHANGES_LOCK_H
#define FAN_CHANGES_LOCK_H

#include "change.h"

/* Waits until this thread alone changes names, if clients may. false: for too long, or the daemon
 * is gone. Where it was too long it is not waited for again before it went well: a file is being
 * copied, perhaps. */
bool fan_change_enter(const struct fan_changer *changer);

/* Waits until this thread alone adds to the log, whether or not clients may change names. false: no
 * client can add to it any more, as one was killed with the segment in its hands, or stopped for a
 * second; nothing is to be left. */
bool fan_change_enter_log(const struct fan_changer *changer);

/* For the core: adds a change to the log that was made elsewhere, also where the log has ended for
 * clients; readers notice nothing. false: it has no room. */
bool fan_change_note(struct fan_changer *changer, struct fan_change *change, const char *path,
                     const char *other);

void fan_change_leave(const struct fan_changer *changer);

/* Adds a change to the log, in front of the last `spare_bytes` of it. false: it has no room, or the
 * daemon has ended it. From here to `fan_change_settle` readers wait. */
bool fan_change_commit(const struct fan_changer *changer, struct fan_change *change,
                       const char *path, const char *other, uint64_t spare_bytes);

/* Readers go on, and the daemon is to look at the log. */
void fan_change_settle(struct fan_changer *changer);

#endif
