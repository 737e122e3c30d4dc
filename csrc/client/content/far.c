#include "far.h"

#include <string.h>

#include "../machine/clock.h"
#include "session.h"

#define PATIENCE_NS                                                                                \
    INT64_C(200000000) /* then the daemon is asked, which waits as long as it must */
#define STEP_NS INT64_C(20000000)

enum { SPINS = 500 };

static struct fan_question *claim(struct fan_cache *cache)
{
    for (unsigned i = 0; i < FAN_SESSION_QUESTIONS; i++) {
        struct fan_question *question = &cache->session->questions[i];
        uint32_t expected = FAN_QUESTION_FREE;
        if (__atomic_compare_exchange_n(&question->state, &expected, FAN_QUESTION_CLAIMED, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return question;
    }
    return NULL;
}

static bool is_answered(const struct fan_question *question)
{
    return __atomic_load_n(&question->state, __ATOMIC_SEQ_CST) != FAN_QUESTION_ASKED;
}

static bool spin(const struct fan_question *question)
{
    for (unsigned i = 0; i < SPINS && !is_answered(question); i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    return is_answered(question);
}

/* false: it was too long, or the daemon took this process for dead; the question is the daemon's.
 */
static bool wait_for(struct fan_question *question)
{
    int64_t start = fan_clock_ns();
    uint32_t state = FAN_QUESTION_ASKED;
    while (!spin(question) && fan_clock_ns() - start < PATIENCE_NS)
        fan_question_wait(question, STEP_NS);
    return !__atomic_compare_exchange_n(&question->state, &state, FAN_QUESTION_DROPPED, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
           state == FAN_QUESTION_ANSWERED;
}

int fan_far_look(uint32_t home, const struct fan_names_path *path, bool follow,
                 struct fan_output_attr *attr)
{
    struct fan_cache *cache = path->bytes <= FAN_QUESTION_PATH_MAX ? fan_session() : NULL;
    struct fan_question *question = cache != NULL ? claim(cache) : NULL;
    if (question == NULL)
        return FAN_NAMES_ASK;
    question->home = home;
    question->mount = path->mount;
    question->path_bytes = (uint32_t)path->bytes;
    question->base_bytes = (uint32_t)path->base_bytes;
    question->follow = follow;
    memcpy(question->path, path->text, path->bytes);
    fan_cache_ask(cache, question);
    if (!wait_for(question))
        return FAN_NAMES_ASK;
    int rc = question->rc;
    *attr = question->attr;
    __atomic_store_n(&question->state, FAN_QUESTION_FREE, __ATOMIC_RELEASE);
    return rc;
}
