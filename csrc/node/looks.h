/*
 * Looks at names of outputs whose home is another rank. A client's question (cache_format.h) goes
 * to that rank as a message of this core's own, which the core there answers from its names segment
 * as its clients read it. What that does not know, and a rank that is lost, is FAN_NAMES_ASK: the
 * client asks its daemon then.
 */
#ifndef FAN_NODE_LOOKS_H
#define FAN_NODE_LOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "../common/names.h"

struct fan_node;
struct fan_message;

/* path: of this rank's names segment, which is mapped at the first look. asked: for each question
 * of each session the number of the look that is under way, or 0. */
struct fan_looks {
    char *path;
    struct fan_names names;
    uint64_t *asked;
    uint64_t last;
};

/* job_segment: a path in the job directory. 0 or -ENOMEM. */
int fan_looks_init(struct fan_looks *looks, const char *job_segment, uint32_t session_count);
void fan_looks_fini(struct fan_looks *looks);

/* Sends what a session asks. Whether there was any. */
bool fan_looks_start(struct fan_node *node, uint32_t session);

/* Forgets what a session asked, which ends. */
void fan_looks_forget(struct fan_node *node, uint32_t session);

/* Whether a message that came is one of these; it is answered, or the question that it answers is.
 */
bool fan_looks_take(struct fan_node *node, const struct fan_message *message);

#endif
