#include "sessions.h"

#include <errno.h>
#include <stdlib.h>

#include "inner.h"
#include "machine/shared.h"

_Static_assert(FAN_SESSION_PINS == 64, "a mask holds a bit for each pin");

int fan_sessions_init(struct fan_sessions *sessions, uint32_t session_count)
{
    sessions->live.count = 0;
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

int fan_session_open(struct fan_node *node, uint32_t pid)
{
    struct fan_sessions *sessions = &node->sessions;
    for (uint32_t i = 0; i < node->segment.session_count; i++) {
        if (sessions->taken[i])
            continue;
        sessions->taken[i] = true;
        sessions->live.sessions[sessions->live.count++] = i;
        fan_put32(&node->segment.sessions[i].pid, pid);
        fan_total_store(&node->segment.sessions[i].state, FAN_SESSION_LIVE);
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
    __atomic_thread_fence(__ATOMIC_RELEASE); /* no block is written before that is to be seen */
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

/* What a client that is gone had open is closed. */
static void close_files(struct fan_node *node, struct fan_session *session)
{
    for (unsigned i = 0; i < FAN_SESSION_FILES; i++) {
        uint64_t file = fan_relaxed64(&session->files[i]);
        fan_put64(&session->files[i], 0);
        if (file != 0)
            fan_eviction_check(&node->eviction, file);
    }
}

void fan_session_close(struct fan_node *node, uint32_t session)
{
    struct fan_sessions *sessions = &node->sessions;
    if (session >= node->segment.session_count || !sessions->taken[session])
        return;
    for (uint64_t left = sessions->asked[session]; left != 0; left &= left - 1) {
        unsigned pin = (unsigned)__builtin_ctzll(left);
        fan_flight_leave(&sessions->wants[session * FAN_SESSION_PINS + pin]);
    }
    sessions->asked[session] = 0;
    clear_shared(&node->segment.sessions[session]);
    forget_live(&sessions->live, session);
    sessions->taken[session] = false;
    close_files(node, &node->segment.sessions[session]);
}

static bool start_want(struct fan_node *node, uint32_t session, unsigned pin, uint64_t now_ns)
{
    const struct fan_pin *at = &node->segment.sessions[session].pins[pin];
    uint64_t bit = UINT64_C(1) << pin;
    if ((node->sessions.asked[session] & bit) != 0 ||
        fan_total_load(&at->state) != FAN_PIN_WANTED)
        return false;
    struct fan_want *want = &node->sessions.wants[session * FAN_SESSION_PINS + pin];
    *want = (struct fan_want){.file = fan_relaxed64(&at->file),
                              .block = fan_relaxed64(&at->block),
                              .since_ns = now_ns};
    node->sessions.asked[session] |= bit;
    fan_fetch_want(node, want, now_ns);
    return true;
}

static bool scan_session(struct fan_node *node, uint32_t session, uint64_t now_ns)
{
    bool any = false;
    if (session >= node->segment.session_count || !node->sessions.taken[session])
        return false;
    fan_take32(&node->segment.sessions[session].wanted);
    for (unsigned pin = 0; pin < FAN_SESSION_PINS; pin++)
        any |= start_want(node, session, pin, now_ns);
    return any;
}

/* The sessions that rang. Whether there are any. */
static bool take_rung(struct fan_node *node, uint64_t rung[FAN_SESSIONS_MAX / 64])
{
    bool any = false;
    for (uint32_t word = 0; word < FAN_SESSIONS_MAX / 64; word++) {
        uint64_t *field = &node->segment.header->wanted_sessions[word];
        if (fan_relaxed64(field) == 0)
            continue;
        rung[word] |= fan_take64(field);
        any = true;
    }
    return any;
}

bool fan_sessions_scan(struct fan_node *node, uint64_t now_ns)
{
    uint64_t rung[FAN_SESSIONS_MAX / 64] = {0};
    bool any = false;
    if (!take_rung(node, rung))
        return false;
    for (uint32_t word = 0; word < FAN_SESSIONS_MAX / 64; word++)
        for (uint64_t left = rung[word]; left != 0; left &= left - 1)
            any |= scan_session(node, word * 64 + (uint32_t)__builtin_ctzll(left), now_ns);
    return any;
}

/* Answers a pin, if it is still the want that was seen: a client may have taken it back and even
 * want another block with it, which is looked at again then. */
static void answer(struct fan_node *node, struct fan_want *want, enum fan_pin_state state)
{
    uint32_t number = (uint32_t)(want - node->sessions.wants);
    uint32_t session = number / FAN_SESSION_PINS;
    struct fan_pin *pin = &node->segment.sessions[session].pins[number % FAN_SESSION_PINS];
    node->sessions.asked[session] &= ~(UINT64_C(1) << number % FAN_SESSION_PINS);
    if (fan_relaxed64(&pin->file) == want->file && fan_relaxed64(&pin->block) == want->block &&
        fan_total_change(&pin->state, FAN_PIN_WANTED, state)) {
        if (fan_total_load(&pin->waiters) != 0)
            fan_futex_wake(&pin->state);
        return;
    }
    uint64_t *wanted = &node->segment.header->wanted_sessions[session / 64];
    __atomic_fetch_or(wanted, UINT64_C(1) << session % 64, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&node->segment.header->doorbell, 1, __ATOMIC_SEQ_CST);
}

static struct fan_pin *pin_of(struct fan_node *node, const struct fan_want *want)
{
    uint64_t number = (uint64_t)(want - node->sessions.wants);
    struct fan_session *session = &node->segment.sessions[number / FAN_SESSION_PINS];
    return &session->pins[number % FAN_SESSION_PINS];
}

void fan_want_grant(struct fan_node *node, struct fan_want *want, uint32_t id,
                    enum fan_stall_source source)
{
    fan_put32(&pin_of(node, want)->source, source);
    fan_put32(&pin_of(node, want)->entry, id);
    answer(node, want, FAN_PIN_HELD);
}

void fan_want_fail(struct fan_node *node, struct fan_want *want, int error)
{
    fan_put32((uint32_t *)&pin_of(node, want)->error, (uint32_t)error);
    fan_add64(&node->stats.failures, 1);
    answer(node, want, FAN_PIN_FAILED);
}

static void fail_pin(struct fan_pin *pin)
{
    fan_put32((uint32_t *)&pin->error, EREMOTEIO);
    if (fan_total_change(&pin->state, FAN_PIN_WANTED, FAN_PIN_FAILED))
        fan_futex_wake(&pin->state);
}

void fan_sessions_fail_all(struct fan_node *node)
{
    const struct fan_live *live = &node->sessions.live;
    for (uint32_t i = 0; i < live->count; i++) {
        for (unsigned pin = 0; pin < FAN_SESSION_PINS; pin++)
            fail_pin(&node->segment.sessions[live->sessions[i]].pins[pin]);
    }
}
