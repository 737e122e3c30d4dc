#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "../../common/descriptor.h"
#include "../../common/number.h"
#include "../../common/sys.h"
#include "../job/job.h"
#include "../job/jobsocket.h"
#include "../machine/limits.h"
#include "../machine/page.h"
#include "../machine/park.h"
#include "../machine/vfork.h"

#define SECOND_NS INT64_C(1000000000)
#define RETRY_NS SECOND_NS
#define CONNECT_NS (10 * SECOND_NS) /* limit for the whole exchange */
#define STEP_NS (SECOND_NS / 10)

enum { SESSIONS_MAX = 32 }; /* of one process, one after the other */

/* This process's sessions. They lie on a page of their own (fan_own_page), which the kernel zeroes
 * in a fork child. now: the live session, or NULL. The others stay mapped, because other threads
 * may be copying under their pins. */
struct own {
    struct fan_cache caches[SESSIONS_MAX];
    _Atomic(struct fan_cache *) now;
    atomic_uint begun;
    atomic_int connector; /* the thread that connects; 0: none. A futex */
    _Atomic int64_t retry_ns;
};
_Static_assert(sizeof(struct own) <= FAN_OWN_PAGE_BYTES, "one page");

static _Atomic(struct own *) own_page;
static atomic_int link_holder; /* the socket; not on the page, because a child must close it */
static atomic_uint epochs;

static void drop_link(void)
{
    int fd = atomic_exchange(&link_holder, 0) - 1;
    if (fd >= 0)
        fan_sys_close(fd);
}

/* Makes a connected socket. It is parked before it is connected, so that a child that is forked in
 * between closes it. */
static int open_link(int64_t until_ns)
{
    struct timeval limit = {.tv_sec = CONNECT_NS / SECOND_NS / 2};
    int link = (int)FAN_SYS(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    link = link < 0 ? link : fan_park(link, &link_holder);
    if (link < 0)
        return link;
    FAN_SYS(setsockopt, link, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    FAN_SYS(setsockopt, link, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    int rc = fan_job_connect(link, "sock", until_ns);
    return rc != 0 ? rc : link;
}

static int ask(int link, int64_t until_ns)
{
    static const char line[] = "{\"op\": \"session\"}\n";
    long rc;
    do {
        rc = FAN_SYS(sendto, link, line, sizeof(line) - 1, MSG_NOSIGNAL, NULL, 0);
    } while (fan_interrupted(rc, until_ns));
    return rc == sizeof(line) - 1 ? 0 : rc < 0 ? (int)rc : -EPROTO;
}

/* Receives a part of the answer. Keeps the last descriptor that came with it; closes others. */
static long receive_some(int link, char *to, size_t room, int *segment)
{
    int fd;
    long got = fan_fd_receive(link, to, room, &fd, 0);
    if (fd >= 0 && *segment >= 0)
        fan_sys_close(*segment);
    if (fd >= 0)
        *segment = fd;
    return got;
}

/* Returns the session's number in an answer line, or -EPROTO. */
static int parse_number(const char *line)
{
    static const char key[] = "\"session\"";
    const char *at = strstr(line, key);
    if (at == NULL)
        return -EPROTO;
    at += sizeof(key) - 1;
    at += strspn(at, ": ");
    long number = fan_take_number(&at, FAN_SESSIONS_MAX);
    return number >= 0 ? (int)number : -EPROTO;
}

/* Waits for the answer. Returns the session's number and sets the segment's descriptor; or
 * -errno. */
static int receive(int link, int64_t until_ns, int *segment)
{
    char line[512];
    size_t used = 0;
    while (used < sizeof(line) - 1) {
        long got = receive_some(link, line + used, sizeof(line) - 1 - used, segment);
        if (fan_interrupted(got, until_ns))
            continue;
        if (got <= 0)
            return got < 0 ? (int)got : -ECONNRESET;
        used += (size_t)got;
        line[used] = '\0';
        if (line[used - 1] == '\n')
            return *segment >= 0 ? parse_number(line) : -EPROTO;
    }
    return -EPROTO;
}

static int make_session(struct fan_cache *cache)
{
    int64_t until_ns = fan_clock_ns() + CONNECT_NS;
    int segment = -1;
    drop_link(); /* one inherited from a process that forked without the library */
    int link = open_link(until_ns);
    int rc = link < 0 ? link : ask(link, until_ns);
    int number = rc == 0 ? receive(link, until_ns, &segment) : rc;
    rc = number < 0 ? number : fan_cache_attach(cache, segment, (uint32_t)number);
    if (rc == 0)
        rc = (int)FAN_SYS(fcntl, link, F_SETFL, O_RDWR | O_NONBLOCK); /* for link_ended */
    if (segment >= 0)
        fan_sys_close(segment);
    if (rc != 0)
        drop_link();
    else
        cache->epoch = atomic_fetch_add(&epochs, 1) + 1;
    return rc;
}

static void connect_as(struct own *own)
{
    bool may = atomic_load(&own->now) == NULL && fan_clock_ns() >= atomic_load(&own->retry_ns);
    unsigned begun = atomic_load(&own->begun);
    if (may && begun < SESSIONS_MAX) {
        struct fan_cache *cache = &own->caches[begun];
        if (make_session(cache) == 0) {
            atomic_fetch_add(&own->begun, 1);
            atomic_store(&own->now, cache);
        } else {
            atomic_store(&own->retry_ns, fan_clock_ns() + RETRY_NS);
        }
    }
    atomic_store(&own->connector, 0);
    FAN_SYS(futex, &own->connector, FUTEX_WAKE_PRIVATE, 1 << 30, NULL);
}

static void wait_for(struct own *own, int connector)
{
    const struct timespec step = {.tv_nsec = STEP_NS};
    int64_t until_ns = fan_clock_ns() + CONNECT_NS;
    while (atomic_load(&own->connector) == connector && fan_clock_ns() < until_ns)
        FAN_SYS(futex, &own->connector, FUTEX_WAIT_PRIVATE, connector, &step);
}

static struct fan_cache *live(struct own *own)
{
    return atomic_load_explicit(&own->now, memory_order_acquire);
}

static struct fan_cache *begin(struct own *own)
{
    if (fan_in_vfork_child() || fan_restricted() || atomic_load(&own->begun) == SESSIONS_MAX ||
        fan_clock_ns() < atomic_load(&own->retry_ns))
        return NULL;
    int self = (int)FAN_SYS(gettid), other = 0;
    int64_t start = fan_clock_ns();
    if (atomic_compare_exchange_strong(&own->connector, &other, self))
        connect_as(own);
    else if (other != self) /* not in a signal handler that interrupts the connecting thread */
        wait_for(own, other);
    fan_trace_stall(FAN_STALL_CACHE, 0, FAN_NOTE_NO_FILE, fan_clock_ns() - start);
    return live(own);
}

struct fan_cache *fan_session_now(void)
{
    struct own *own = atomic_load_explicit(&own_page, memory_order_acquire);
    return own != NULL ? live(own) : NULL;
}

struct fan_cache *fan_session(void)
{
    struct fan_cache *cache = fan_session_now();
    if (__builtin_expect(cache != NULL, 1))
        return cache;
    struct own *own = fan_own_page(&own_page);
    return own != NULL ? begin(own) : NULL;
}

/* Returns whether the daemon has closed its end of the link, or died. The daemon sends nothing on
 * it now, and the link does not block. A seccomp filter may end the process for any call but a
 * read; other programs may have put a file of theirs in the link's place, which a read would
 * disturb. */
static bool link_ended(void)
{
    char byte;
    int link = fan_parked(&link_holder);
    if (link < 0)
        return true;
    long rc = fan_restricted()
                  ? FAN_SYS(read, link, &byte, 1)
                  : FAN_SYS(recvfrom, link, &byte, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL);
    return rc != -EAGAIN && rc != -EINTR;
}

static bool has_ended(const struct fan_cache *cache)
{
    return fan_cache_ended(cache) || link_ended();
}

void fan_session_end(const struct fan_pin *pin)
{
    struct own *own = atomic_load(&own_page);
    struct fan_cache *cache = fan_session_now();
    if (cache == NULL || fan_in_vfork_child() || pin < cache->session->pins ||
        pin >= cache->session->pins + FAN_SESSION_PINS)
        return;
    if (!has_ended(cache)) /* a daemon that is not to be believed */
        atomic_store(&own->begun, SESSIONS_MAX);
    atomic_compare_exchange_strong(&own->now, &cache, NULL);
}

bool fan_session_check(const struct fan_cache *cache)
{
    if (cache == NULL || cache != fan_session_now())
        return false;
    bool ended = has_ended(cache);
    if (ended)
        fan_session_end(cache->session->pins);
    return !ended;
}

void fan_session_after_fork_child(void)
{
    struct own *own = atomic_load(&own_page);
    if (own != NULL) /* if the kernel did not zero the page */
        memset(own, 0, sizeof(*own));
    drop_link();
}
