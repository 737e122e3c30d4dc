#include "questions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inner.h"
#include "machine/shared.h"

/* How a message begins; those of fanstore/peers/pieces.py begin with a small byte. */
#define QUESTION UINT64_C(0x3f4b4f4f4c4e4146)
#define ANSWER UINT64_C(0x214b4f4f4c4e4146)

/* A question, or its answer, which has no text. rc: of an answer. */
struct letter {
    uint64_t kind;
    uint64_t number;
    int32_t rc;
    uint32_t how;
    uint32_t base_bytes;
    uint32_t other_base_bytes;
    struct fan_change change;
    char text[FAN_QUESTION_TEXT_BYTES];
};

enum { HEAD_BYTES = offsetof(struct letter, text) };

/* One that is under way. question: its number among those of all sessions. */
struct fan_sent {
    struct fan_sent *next;
    uint32_t rank;
    uint32_t question;
    struct letter letter;
};

int fan_questions_init(struct fan_questions *questions, uint32_t session_count)
{
    *questions = (struct fan_questions){0};
    questions->asked =
        calloc((size_t)session_count * FAN_SESSION_QUESTIONS, sizeof(*questions->asked));
    return questions->asked != NULL ? 0 : -ENOMEM;
}

void fan_questions_fini(struct fan_questions *questions)
{
    while (questions->sent != NULL) {
        struct fan_sent *sent = questions->sent;
        questions->sent = sent->next;
        free(sent);
    }
    free(questions->asked);
    *questions = (struct fan_questions){0};
}

static struct fan_question *question_at(struct fan_node *node, uint32_t number)
{
    struct fan_session *session = &node->segment.sessions[number / FAN_SESSION_QUESTIONS];
    return &session->questions[number % FAN_SESSION_QUESTIONS];
}

static bool is_change(const struct letter *letter)
{
    return letter->change.kind != 0;
}

static struct fan_inquiry inquiry_of(const struct letter *letter)
{
    return (struct fan_inquiry){letter->change, letter->how, letter->base_bytes,
                                letter->other_base_bytes, letter->text};
}

/* ---- asking ---- */

static void tell(struct fan_node *node, uint32_t number, int rc, const struct fan_change *change)
{
    struct fan_question *question = question_at(node, number);
    node->questions.asked[number] = 0;
    if (rc == 0)
        question->change = *change;
    fan_put32((uint32_t *)&question->rc, (uint32_t)rc);
    if (fan_total_change(&question->state, FAN_QUESTION_ASKED, FAN_QUESTION_ANSWERED)) {
        if (fan_total_load(&question->waiters) != 0)
            fan_futex_wake(&question->state);
    } else {
        fan_total_change(&question->state, FAN_QUESTION_DROPPED, FAN_QUESTION_FREE);
    }
}

/* One comes to its end: a change is noted, and whoever asked is told, if it is there. */
static void finish(struct fan_node *node, struct fan_sent *sent, int rc,
                   const struct fan_change *change)
{
    struct fan_inquiry asked = inquiry_of(&sent->letter);
    if (rc == 0 && change != NULL)
        asked.change = *change;
    if (is_change(&sent->letter))
        rc = fan_home_note(&node->home, &asked, sent->rank, rc);
    if (node->questions.asked[sent->question] == sent->letter.number)
        tell(node, sent->question, rc, &asked.change);
    free(sent);
}

static struct fan_sent *take_sent(struct fan_questions *questions, uint64_t number)
{
    for (struct fan_sent **link = &questions->sent; *link != NULL; link = &(*link)->next) {
        struct fan_sent *sent = *link;
        if (sent->letter.number != number)
            continue;
        *link = sent->next;
        return sent;
    }
    return NULL;
}

/* A client may change what lies in its session at any time. */
static void copy(struct letter *letter, const struct fan_question *question, uint64_t number)
{
    *letter = (struct letter){.kind = QUESTION,
                              .number = number,
                              .how = question->how,
                              .base_bytes = question->base_bytes,
                              .other_base_bytes = question->other_base_bytes,
                              .change = question->change};
    memcpy(letter->text, question->text, sizeof(letter->text));
}

static uint64_t text_bytes(const struct letter *letter)
{
    return (uint64_t)letter->change.path_bytes + letter->change.other_bytes;
}

/* One that nothing is asked of: a change that has begun is over. */
static void refuse(struct fan_node *node, uint32_t number)
{
    if (question_at(node, number)->change.kind != 0)
        fan_home_end(&node->home);
    tell(node, number, FAN_NAMES_ASK, NULL);
}

static void start(struct fan_node *node, uint32_t number)
{
    const struct fan_question *question = question_at(node, number);
    struct fan_sent *sent = malloc(sizeof(*sent));
    int rc = -ENOMEM;
    node->questions.asked[number] = ++node->questions.last;
    if (sent != NULL) {
        *sent = (struct fan_sent){.rank = question->home, .question = number};
        copy(&sent->letter, question, node->questions.last);
        rc = -EINVAL;
        if (text_bytes(&sent->letter) <= sizeof(sent->letter.text) &&
            (!is_change(&sent->letter) || fan_home_map(&node->home)))
            rc = fan_node_post(node, sent->rank, &sent->letter,
                               HEAD_BYTES + text_bytes(&sent->letter));
        sent->next = node->questions.sent;
    }
    if (rc == 0)
        node->questions.sent = sent;
    else if (sent != NULL)
        finish(node, sent, FAN_NAMES_ASK, NULL);
    else
        refuse(node, number);
}

/* One that its client waits for no more, and that was never sent. */
static void drop(struct fan_node *node, struct fan_question *question)
{
    bool change = question->change.kind != 0;
    if (fan_total_change(&question->state, FAN_QUESTION_DROPPED, FAN_QUESTION_FREE) && change)
        fan_home_end(&node->home);
}

bool fan_questions_start(struct fan_node *node, uint32_t session, bool changes)
{
    bool any = false;
    for (uint32_t i = 0; i < FAN_SESSION_QUESTIONS; i++) {
        uint32_t number = session * FAN_SESSION_QUESTIONS + i;
        struct fan_question *question = question_at(node, number);
        if (node->questions.asked[number] != 0)
            continue;
        drop(node, question);
        if (fan_total_load(&question->state) != FAN_QUESTION_ASKED ||
            (question->change.kind != 0) != changes)
            continue;
        start(node, number);
        any = true;
    }
    return any;
}

void fan_questions_forget(struct fan_node *node, uint32_t session)
{
    fan_questions_start(node, session, true); /* one that has begun is made, and counted */
    for (uint32_t i = 0; i < FAN_SESSION_QUESTIONS; i++) {
        uint32_t number = session * FAN_SESSION_QUESTIONS + i;
        node->questions.asked[number] = 0;
        fan_total_store(&question_at(node, number)->state, FAN_QUESTION_FREE);
    }
}

/* ---- answering ---- */

/* Where the answer to a change cannot be sent, neither rank knows what the other knows. */
static void answer(struct fan_node *node, uint32_t rank, const struct letter *letter)
{
    struct fan_inquiry asked = inquiry_of(letter);
    struct letter reply = {.kind = ANSWER, .number = letter->number};
    bool own = asked.change.rank == rank && !fan_ranks_is_lost(&node->ranks, rank);
    if (!is_change(letter))
        reply.rc = fan_home_look(&node->home, &asked);
    else
        reply.rc = own ? fan_home_change(&node->home, &asked) : FAN_NAMES_ASK;
    reply.change = asked.change;
    fan_add64(&node->stats.looks, !is_change(letter));
    fan_add64(&node->stats.changes, is_change(letter) && reply.rc == 0);
    if (fan_node_post(node, rank, &reply, HEAD_BYTES) != 0 && is_change(letter))
        fan_ranks_lose(&node->ranks, rank);
}

/* What a core that is sane answers is what it was asked, with what it alone knows. */
static struct fan_change answered(const struct letter *asked, const struct letter *answer)
{
    struct fan_change change = asked->change;
    change.attr = answer->change.attr;
    change.gone = answer->change.gone;
    change.when_ns = answer->change.when_ns;
    if (change.kind == FAN_CHANGE_MOVED)
        change.object = answer->change.object;
    return change;
}

static void take_answer(struct fan_node *node, uint32_t rank, const struct letter *letter)
{
    struct fan_sent *sent = take_sent(&node->questions, letter->number);
    if (sent == NULL)
        return;
    if (sent->rank == rank) {
        struct fan_change change = answered(&sent->letter, letter);
        finish(node, sent, letter->rc, &change);
        return;
    }
    sent->next = node->questions.sent; /* another rank's word is not taken */
    node->questions.sent = sent;
}

bool fan_questions_take(struct fan_node *node, const struct fan_message *message)
{
    struct letter letter = {0};
    if (message->bytes < HEAD_BYTES || message->bytes > sizeof(letter))
        return false;
    memcpy(&letter, message->data, message->bytes);
    if (letter.kind == QUESTION && text_bytes(&letter) == message->bytes - HEAD_BYTES)
        answer(node, message->rank, &letter);
    else if (letter.kind == ANSWER)
        take_answer(node, message->rank, &letter);
    return letter.kind == QUESTION || letter.kind == ANSWER;
}

void fan_questions_advance(struct fan_node *node)
{
    struct fan_questions *questions = &node->questions;
    if (questions->lost_count == node->ranks.lost_count)
        return;
    questions->lost_count = node->ranks.lost_count;
    struct fan_sent *left = questions->sent;
    questions->sent = NULL;
    while (left != NULL) {
        struct fan_sent *sent = left;
        left = sent->next;
        if (fan_ranks_is_lost(&node->ranks, sent->rank)) {
            finish(node, sent, FAN_NAMES_ASK, NULL);
            continue;
        }
        sent->next = questions->sent;
        questions->sent = sent;
    }
}
