#include "far.h"

#include <errno.h>
#include <string.h>

#include "../machine/clock.h"
#include "session.h"

#define SECOND_NS INT64_C(1000000000)
#define LOOK_NS (SECOND_NS / 5)    /* then the daemon is asked, which waits as long as it must */
#define CHANGE_NS (60 * SECOND_NS) /* as where the daemon is asked */
#define STEP_NS (SECOND_NS / 50)

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

static void give_back(struct fan_question *question)
{
    __atomic_store_n(&question->state, FAN_QUESTION_FREE, __ATOMIC_RELEASE);
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
static bool wait_for(struct fan_question *question, int64_t patience_ns)
{
    int64_t start = fan_clock_ns(), waited = 0;
    uint32_t state = FAN_QUESTION_ASKED;
    while (!spin(question) && waited < patience_ns) {
        fan_question_wait(question, STEP_NS);
        waited = fan_clock_ns() - start;
        if (waited > LOOK_NS && !fan_session_check())
            break;
    }
    return !__atomic_compare_exchange_n(&question->state, &state, FAN_QUESTION_DROPPED, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
           state == FAN_QUESTION_ANSWERED;
}

/* Puts the paths of a wish behind one another. */
static struct fan_question *fill(struct fan_cache *cache, const struct fan_wish *wish)
{
    size_t bytes = wish->path.bytes + wish->other.bytes;
    struct fan_question *question =
        cache != NULL && bytes <= sizeof(question->text) ? claim(cache) : NULL;
    if (question == NULL)
        return NULL;
    question->change = wish->change;
    question->change.mount = (uint16_t)wish->path.mount;
    question->change.path_bytes = (uint32_t)wish->path.bytes;
    question->change.other_bytes = (uint32_t)wish->other.bytes;
    question->base_bytes = (uint32_t)wish->path.base_bytes;
    question->other_base_bytes = (uint32_t)wish->other.base_bytes;
    question->how = (wish->replace ? FAN_QUESTION_REPLACE : 0u) |
                    (wish->directory ? FAN_QUESTION_DIRECTORY : 0u);
    if (wish->path.bytes > 0) /* PUBLISHED has none */
        memcpy(question->text, wish->path.text, wish->path.bytes);
    if (wish->other.bytes > 0)
        memcpy(question->text + wish->path.bytes, wish->other.text, wish->other.bytes);
    return question;
}

int fan_far_look(uint32_t home, const struct fan_names_path *path, bool follow,
                 struct fan_output_attr *attr)
{
    struct fan_cache *cache = fan_session();
    const struct fan_wish wish = {.path = *path};
    struct fan_question *question = fill(cache, &wish);
    if (question == NULL)
        return FAN_NAMES_ASK;
    question->home = home;
    question->how = follow ? FAN_QUESTION_FOLLOW : 0u;
    fan_cache_ask(cache, question);
    fan_cache_ring(cache);
    if (!wait_for(question, LOOK_NS))
        return FAN_NAMES_ASK;
    int rc = question->rc;
    *attr = question->change.attr;
    give_back(question);
    return rc;
}

bool fan_far_prepare(struct fan_far *far, const struct fan_wish *wish)
{
    far->question = fill(far->cache, wish);
    return far->question != NULL;
}

void fan_far_drop(struct fan_far *far)
{
    give_back(far->question);
    far->question = NULL;
}

void fan_far_ask(struct fan_far *far, uint32_t home, const struct fan_change *change)
{
    struct fan_change *asked = &far->question->change;
    far->question->home = home;
    asked->rank = change->rank;
    asked->pid = change->pid;
    asked->object = change->object;
    fan_cache_ask(far->cache, far->question);
}

int fan_far_wait(struct fan_far *far, struct fan_change *change)
{
    struct fan_question *question = far->question;
    fan_cache_ring(far->cache);
    if (!wait_for(question, CHANGE_NS))
        return -EIO;
    int rc = question->rc;
    if (rc == 0)
        *change = question->change;
    give_back(question);
    return rc == 0 ? 0 : FAN_NAMES_ASK;
}
