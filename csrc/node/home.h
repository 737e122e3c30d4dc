/*
 * The names segment of this rank as the core uses it: names that this rank keeps are looked at and
 * changed for programs of other ranks, as programs of this rank do it, and what other ranks did for
 * its own programs is noted. The segment is mapped at its first use.
 */
#ifndef FAN_NODE_HOME_H
#define FAN_NODE_HOME_H

#include <stdbool.h>

#include "../changes/change.h"

/* directory: of the job, where the segment is. */
struct fan_home {
    char *directory;
    struct fan_names names;
};

/* What is asked about a name, and the answer: of a look change.attr, else what was changed. */
struct fan_inquiry {
    struct fan_change change;
    uint32_t how;
    uint32_t base_bytes;
    uint32_t other_base_bytes;
    const char *text;
};

/* job_segment: a path in the job directory. 0 or -ENOMEM. */
int fan_home_init(struct fan_home *home, const char *job_segment);
void fan_home_fini(struct fan_home *home);

/* Maps the segment, unless it is. false: it cannot be now, and nothing would be noted in it. */
bool fan_home_map(struct fan_home *home);

/* 0, what fan_names_look returns, or FAN_NAMES_ASK. A link's target is not told. */
int fan_home_look(struct fan_home *home, struct fan_inquiry *asked);

/* Makes a change that a program of another rank wants. 0 or FAN_NAMES_ASK; nothing is waited for.
 */
int fan_home_change(struct fan_home *home, struct fan_inquiry *asked);

/* What rank `by` made of a change (0 or FAN_NAMES_ASK), which a program of this rank began. Returns
 * what that is to be told: FAN_NAMES_ASK, too, where the change cannot be noted. */
int fan_home_note(struct fan_home *home, struct fan_inquiry *asked, uint32_t by, int rc);

/* A change that a program of this rank began is over, and was not made. */
void fan_home_end(struct fan_home *home);

#endif
