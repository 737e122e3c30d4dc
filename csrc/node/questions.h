/*
 * What clients ask about names of outputs whose home is another rank (struct fan_question). A
 * question goes to that rank as a message of the cores' own; the core there looks into its names
 * segment, or changes it (home.h), and answers. What that does not do, and a rank that is lost, is
 * FAN_NAMES_ASK: the client asks its daemon then.
 */
#ifndef FAN_NODE_QUESTIONS_H
#define FAN_NODE_QUESTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct fan_node;
struct fan_message;
struct fan_sent;

/* asked: for each question of each session the number under which it is under way, or 0. sent:
 * those under way, the newest first. lost_count: of ranks, when it was last looked who does not
 * answer. */
struct fan_questions {
    uint64_t *asked;
    uint64_t last;
    struct fan_sent *sent;
    uint32_t lost_count;
};

/* 0 or -ENOMEM. */
int fan_questions_init(struct fan_questions *questions, uint32_t session_count);
void fan_questions_fini(struct fan_questions *questions);

/* Sends what a session asks: the changes, or the looks. Whether there was any. */
bool fan_questions_start(struct fan_node *node, uint32_t session, bool changes);

/* Forgets what a session asked, which ends. Changes that were sent are noted all the same. */
void fan_questions_forget(struct fan_node *node, uint32_t session);

/* Whether a message that came is one of these; it is answered, or the question that it answers is.
 */
bool fan_questions_take(struct fan_node *node, const struct fan_message *message);

/* Answers what ranks were asked that are lost by now. */
void fan_questions_advance(struct fan_node *node);

#endif
