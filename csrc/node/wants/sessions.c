#include "sessions.h"

#include <errno.h>
#include <stdlib.h>

#include "flights.h"
#include "../machine/shared.h"

_Static_assert(FAN_SESSION_PINS == 64, "a mask holds a bit for each pin");

int fan_sessions_init(struct fan_sessions *sessions, struct fan_segment *segment)
{
    uint32_t session_count = segment->session_count;
    *sessions = (struct fan_sessions){.segment = segment};
    sessions->taken = calloc(session_count, sizeof(*sessions->taken));
    sessions->asked = calloc(session_count, sizeof(*sessions->asked));
    sessions->wants = calloc((size_t)session_count * FAN_SESSION_PINS, sizeof(*sessions->wants));
    if (sessions->taken != NULL && sessions->asked != NULL && sessions->wants != NULL)
        return 0;
    fan_sessions_fini(sessions);
    return -ENOMEM;
}

void fan_sessions_fini(struct fan_sessions *sessions)
{
    free(sessions->taken);
    free(sessions->asked);
    free(sessions->wants);
    *sessions = (struct fan_sessions){0};
}

int fan_session_open(struct fan_sessions *sessions, uint32_t pid)
{
    for (uint32_t i = 0; i < sessions->segment->session_count; i++) {
        if (sessions->taken[i])
            continue;
        if (fan_segment_take_session(sessions->segment, i) != 0)
            return -ENOMEM;
        sessions->taken[i] = true;
        sessions->live.sessions[sessions->live.count++] = i;
        fan_put32(&sessions->segment->sessions[i].pid, pid);
        fan_total_store(&sessions->segment->sessions[i].state, FAN_SESSION_LIVE);
        return (int)i;
    }
    return -EAGAIN;
}

static void forget_live(struct fan_live *live, uint32_t session)
{
    for (uint32_t i = 0; i < live->count; i++) {
        if (live->sessions[i] != session)
            continue;
        live->sessions[i] = live->sessions[--live->count];
        return;
    }
}

static void clear_shared(struct fan_session *session)
{
    fan_total_store(&session->state, FAN_SESSION_FREE);
    for (unsigned i = 0; i < FAN_SESSION_PINS; i++)
        fan_total_store(&session->pins[i].state, FAN_PIN_FREE);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* to be seen before any block is written there */
    for (unsigned i = 0; i < FAN_SESSION_PINS; i++)
        fan_put32(&session->pins[i].waiters, 0);
    for (unsigned word = 0; word < FAN_SESSION_FILES / 64; word++)
        fan_put64(&session->closed[word], 0);
    for (unsigned i = 0; i < FAN_SESSION_HINTS; i++)
        fan_put32(&session->hints[i].state, FAN_HINT_FREE);
    fan_put32(&session->hinted, 0);
    fan_put32(&session->wanted, 0);
    fan_put32(&session->pid, 0);
}

/* Closes the files that a client had open when it ended. */
static void close_files(struct fan_eviction *eviction, struct fan_session *session)
{
    for (unsigned i = 0; i < FAN_SESSION_FILES; i++) {
        uint64_t file = fan_relaxed64(&session->files[i]);
        fan_put64(&session->files[i], 0);
        if (file != 0)
            fan_eviction_check(eviction, file);
    }
}

void fan_session_close(struct fan_sessions *sessions, struct fan_eviction *eviction,
                       uint32_t session)
{
    if (session >= sessions->segment->session_count || !sessions->taken[session])
        return;
    for (uint64_t left = sessions->asked[session]; left != 0; left &= left - 1) {
        unsigned pin = (unsigned)__builtin_ctzll(left);
        fan_flight_leave(&sessions->wants[session * FAN_SESSION_PINS + pin]);
    }
    sessions->asked[session] = 0;
    clear_shared(&sessions->segment->sessions[session]);
    forget_live(&sessions->live, session);
    sessions->taken[session] = false;
    close_files(eviction, &sessions->segment->sessions[session]);
}

struct fan_want *fan_session_next_want(struct fan_sessions *sessions, uint32_t session,
                                       unsigned *pin, uint64_t now_ns)
{
    const struct fan_pin *pins = sessions->segment->sessions[session].pins;
    const uint64_t asked = sessions->asked[session];
    for (unsigned at = *pin; at < FAN_SESSION_PINS; at++) {
        uint64_t bit = UINT64_C(1) << at;
        if ((asked & bit) != 0 || fan_total_load(&pins[at].state) != FAN_PIN_WANTED)
            continue;
        struct fan_want *want = &sessions->wants[session * FAN_SESSION_PINS + at];
        *want = (struct fan_want){
            .file = fan_relaxed64(&pins[at].file),
            .block = fan_relaxed64(&pins[at].block),
            .part = {fan_relaxed32(&pins[at].from), fan_relaxed32(&pins[at].count)},
            .since_ns = now_ns};
        sessions->asked[session] |= bit;
        *pin = at + 1;
        return want;
    }
    return NULL;
}

bool fan_session_take_wanted(struct fan_sessions *sessions, uint32_t session)
{
    if (session >= sessions->segment->session_count || !sessions->taken[session])
        return false;
    fan_take32(&sessions->segment->sessions[session].wanted);
    return true;
}

static struct fan_pin *pin_of(const struct fan_sessions *sessions, const struct fan_want *want)
{
    uint64_t number = (uint64_t)(want - sessions->wants);
    struct fan_session *session = &sessions->segment->sessions[number / FAN_SESSION_PINS];
    return &session->pins[number % FAN_SESSION_PINS];
}

/* Returns whether a pin is still for what the want is for. */
static bool is_for(const struct fan_pin *pin, const struct fan_want *want)
{
    return fan_relaxed64(&pin->file) == want->file && fan_relaxed64(&pin->block) == want->block &&
           fan_relaxed32(&pin->from) == want->part.from;
}

/* Answers a want. A client may have withdrawn it meanwhile, and even want another block with the
 * same pin: that pin is looked at again. */
static void answer(struct fan_sessions *sessions, struct fan_want *want, enum fan_pin_state state)
{
    uint32_t number = (uint32_t)(want - sessions->wants);
    uint32_t session = number / FAN_SESSION_PINS;
    struct fan_pin *pin = pin_of(sessions, want);
    sessions->asked[session] &= ~(UINT64_C(1) << number % FAN_SESSION_PINS);
    if (is_for(pin, want) && fan_total_change(&pin->state, FAN_PIN_WANTED, state)) {
        if (fan_total_load(&pin->waiters) != 0)
            fan_futex_wake(&pin->state);
        return;
    }
    uint64_t *wanted = &sessions->segment->header->wanted_sessions[session / 64];
    __atomic_fetch_or(wanted, UINT64_C(1) << session % 64, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&sessions->segment->header->doorbell, 1, __ATOMIC_SEQ_CST);
}

void fan_want_grant(struct fan_sessions *sessions, struct fan_want *want, uint32_t id,
                    enum fan_stall_source source)
{
    fan_put32(&pin_of(sessions, want)->source, source);
    fan_put32(&pin_of(sessions, want)->entry, id);
    answer(sessions, want, FAN_PIN_HELD);
}

void fan_want_fail(struct fan_sessions *sessions, struct fan_want *want, int error)
{
    fan_put32((uint32_t *)&pin_of(sessions, want)->error, (uint32_t)error);
    fan_add64(&sessions->failures, 1);
    answer(sessions, want, FAN_PIN_FAILED);
}

static void fail_pin(struct fan_pin *pin)
{
    fan_put32((uint32_t *)&pin->error, EREMOTEIO);
    if (fan_total_change(&pin->state, FAN_PIN_WANTED, FAN_PIN_FAILED))
        fan_futex_wake(&pin->state);
}

void fan_sessions_fail_all(struct fan_sessions *sessions)
{
    const struct fan_live *live = &sessions->live;
    for (uint32_t i = 0; i < live->count; i++) {
        for (unsigned pin = 0; pin < FAN_SESSION_PINS; pin++)
            fail_pin(&sessions->segment->sessions[live->sessions[i]].pins[pin]);
    }
}
