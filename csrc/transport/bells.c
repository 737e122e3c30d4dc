#include "bells.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mpi_transport.h"

enum {
    AWAKE_NS = 100000, /* for so long after a message its sender looks for others (node/thread.c) */
    UNRUNG_NS = 10000000, /* so long nobody sleeps who is rung */
    ROOM_BYTES = 1 << 20, /* for the first rings of many ranks */
    TAKEN_MOST = 256,     /* rings taken in one call, so that a flood does not hold the thread */
    UDP_HEAD_BYTES = 8
};

_Static_assert(sizeof(struct fan_bell) == FAN_BELL_BYTES, "exchanged by the ranks as bytes");

struct ring {
    uint64_t token;
    uint32_t rank;
    uint32_t sleeps; /* the sender does so at once if it finds nothing to do */
};

/* The doorbell of the thread that listens, and whether it was rung since it last looked.
 * Initial-exec because the signal handler must not allocate the variables. */
static _Thread_local uint32_t *doorbell __attribute__((tls_model("initial-exec")));
static _Thread_local volatile sig_atomic_t was_rung __attribute__((tls_model("initial-exec")));

/* Runs in the thread that listens, or while it begins to: the increment makes a futex wait that is
 * about to begin return at once, and the signal ends one that has begun. */
static void on_ring(int number)
{
    (void)number;
    was_rung = 1;
    if (doorbell != NULL)
        __atomic_fetch_add(doorbell, 1, __ATOMIC_SEQ_CST);
}

/* ---- this rank's socket ---- */

/* Makes the kernel drop every datagram that does not begin with the token. */
static int refuse_strangers(int fd, uint64_t token)
{
    uint32_t words[2];
    memcpy(words, &token, sizeof(words));
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, UDP_HEAD_BYTES),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[0]), 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, UDP_HEAD_BYTES + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[1]), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UDP_HEAD_BYTES + sizeof(struct ring)),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = sizeof(steps) / sizeof(steps[0]), .filter = steps};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/* Returns a socket on a free port of all addresses, or -1. */
static int open_socket(struct fan_bell *own)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t bytes = sizeof(any);
    int room = ROOM_BYTES;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)); /* as much as the system allows */
    if (refuse_strangers(fd, own->token) != 0 ||
        bind(fd, (struct sockaddr *)&any, sizeof(any)) != 0 ||
        getsockname(fd, (struct sockaddr *)&any, &bytes) != 0) {
        close(fd);
        return -1;
    }
    own->port = any.sin_port;
    return fd;
}

/* Lists the addresses of this host: those of networks first, then loopback, which the other ranks
 * of this host may need. */
static void list_addresses(struct fan_bell *own)
{
    struct ifaddrs *all;
    uint32_t count = 0;
    if (getifaddrs(&all) != 0)
        return;
    for (unsigned loopback = 0; loopback <= IFF_LOOPBACK; loopback += IFF_LOOPBACK) {
        for (const struct ifaddrs *each = all; each != NULL; each = each->ifa_next) {
            struct sockaddr_in address;
            if (each->ifa_addr == NULL || each->ifa_addr->sa_family != AF_INET ||
                (each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != loopback ||
                count == FAN_BELL_ADDRESSES)
                continue;
            memcpy(&address, each->ifa_addr, sizeof(address));
            own->addresses[count++] = address.sin_addr.s_addr;
        }
    }
    freeifaddrs(all);
}

void fan_bells_init(struct fan_bells *bells, uint32_t own_rank, uint32_t world_size)
{
    *bells = (struct fan_bells){.fd = -1, .own_rank = own_rank, .world_size = world_size};
    uint64_t token;
    if (getrandom(&token, sizeof(token), 0) != sizeof(token))
        return;
    bells->own.token = token;
    bells->fd = open_socket(&bells->own);
    if (bells->fd >= 0)
        list_addresses(&bells->own);
}

void fan_bells_fini(struct fan_bells *bells)
{
    if (bells->fd >= 0)
        close(bells->fd);
    free(bells->ranks);
    free(bells->due);
    *bells = (struct fan_bells){.fd = -1};
}

int fan_bells_meet(struct fan_bells *bells, const struct fan_bell *all)
{
    bells->ranks = calloc(bells->world_size, sizeof(*bells->ranks));
    bells->due = calloc(bells->world_size, sizeof(*bells->due));
    if (bells->ranks == NULL || bells->due == NULL)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < bells->world_size; rank++)
        bells->ranks[rank].bell = all[rank];
    return 0;
}

/* ---- ringing and being rung ---- */

/* Makes a ring interrupt this thread. Returns 0 or -errno. */
static int interrupt_by(int fd)
{
    struct sigaction before, action = {.sa_handler = on_ring, .sa_flags = SA_RESTART | SA_ONSTACK};
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = (pid_t)syscall(SYS_gettid)};
    sigset_t rings;
    sigemptyset(&action.sa_mask);
    sigemptyset(&rings);
    sigaddset(&rings, SIGIO);
    if (sigaction(SIGIO, NULL, &before) != 0)
        return -errno;
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN &&
        before.sa_handler != on_ring)
        return -EBUSY;
    if (sigaction(SIGIO, &action, NULL) != 0 || fcntl(fd, F_SETOWN_EX, &owner) != 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK | O_ASYNC) != 0)
        return -errno;
    return -pthread_sigmask(SIG_UNBLOCK, &rings, NULL);
}

int fan_bells_listen(struct fan_bells *bells, uint32_t *rung)
{
    if (bells->fd < 0 || bells->ranks == NULL)
        return -ENOTCONN;
    doorbell = rung;
    was_rung = 1; /* some may have come before */
    int rc = interrupt_by(bells->fd);
    if (rc != 0)
        return rc;
    bells->listens = true;
    for (uint32_t rank = 0; rank < bells->world_size; rank++)
        fan_bells_note(bells, rank);
    fan_bells_ring(bells, false);
    return 0;
}

void fan_bells_note(struct fan_bells *bells, uint32_t rank)
{
    if (bells->ranks == NULL || rank == bells->own_rank || bells->ranks[rank].due)
        return;
    bells->ranks[rank].due = true;
    bells->due[bells->due_count++] = rank;
}

static void send_ring(const struct fan_bells *bells, const struct fan_bell_rank *rank,
                      uint32_t address)
{
    const struct ring ring = {
        .token = rank->bell.token, .rank = bells->own_rank, .sleeps = rank->told};
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = (in_port_t)rank->bell.port, .sin_addr.s_addr = address};
    /* Best effort: whatever the error, the receiver looks by the clock. */
    (void)sendto(bells->fd, &ring, sizeof(ring), MSG_NOSIGNAL, (const struct sockaddr *)&to,
                 sizeof(to));
}

static void ring_rank(const struct fan_bells *bells, const struct fan_bell_rank *rank)
{
    if (rank->address != 0) {
        send_ring(bells, rank, rank->address);
        return;
    }
    for (unsigned i = 0; i < FAN_BELL_ADDRESSES && rank->bell.addresses[i] != 0; i++)
        send_ring(bells, rank, rank->bell.addresses[i]);
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void fan_bells_ring(struct fan_bells *bells, bool sleeps)
{
    uint64_t awake_ns = bells->due_count > 0 ? clock_ns() - AWAKE_NS : 0;
    while (bells->due_count > 0) {
        struct fan_bell_rank *rank = &bells->ranks[bells->due[--bells->due_count]];
        bool is_awake = !rank->sleeps && rank->active_ns > awake_ns && rank->told == sleeps;
        rank->due = false;
        rank->told = sleeps;
        if (!is_awake)
            ring_rank(bells, rank);
    }
}

static bool is_listed(const struct fan_bell *bell, uint32_t address)
{
    for (unsigned i = 0; i < FAN_BELL_ADDRESSES && bell->addresses[i] != 0; i++) {
        if (bell->addresses[i] == address)
            return true;
    }
    return false;
}

static void learn(struct fan_bells *bells, const struct ring *ring, uint32_t address)
{
    if (ring->token != bells->own.token || ring->rank >= bells->world_size ||
        ring->rank == bells->own_rank)
        return;
    struct fan_bell_rank *rank = &bells->ranks[ring->rank];
    rank->sleeps = ring->sleeps != 0;
    if (is_listed(&rank->bell, address)) /* no other one: it may be a router's */
        rank->address = address;
    if (rank->heard)
        return;
    rank->heard = true;
    bells->heard_count++;
    fan_bells_note(bells, ring->rank); /* this rank's first ring may have been lost */
}

/* Takes the rings that have come. Returns whether there were any. */
static bool take(struct fan_bells *bells)
{
    if (!bells->listens || !was_rung)
        return false;
    was_rung = 0; /* before the first look: a ring that comes later sets it again */
    for (int i = 0; i < TAKEN_MOST; i++) {
        struct ring ring;
        struct sockaddr_in from;
        socklen_t bytes = sizeof(from);
        ssize_t rc = recvfrom(bells->fd, &ring, sizeof(ring), 0, (struct sockaddr *)&from, &bytes);
        if (rc < 0)
            return true;
        if (rc == sizeof(ring))
            learn(bells, &ring, from.sin_addr.s_addr);
    }
    was_rung = 1; /* more may be there */
    return true;
}

struct fan_bells_look fan_bells_look(struct fan_bells *bells)
{
    uint64_t now_ns = clock_ns();
    struct fan_bells_look look = {
        .now_ns = now_ns, .slept_ns = now_ns - bells->polled_ns, .rung = take(bells)};
    bells->polled_ns = now_ns;
    return look;
}

void fan_bells_found(struct fan_bells *bells, const struct fan_bells_look *look, uint32_t rank)
{
    if (bells->ranks == NULL || rank >= bells->world_size)
        return;
    struct fan_bell_rank *from = &bells->ranks[rank];
    /* After a sleep it is unknown when this was sent: its sender may sleep again. */
    if (look->slept_ns < AWAKE_NS)
        from->active_ns = look->now_ns;
    /* Its rings no longer come through. It counts as heard again with the next that does. */
    if (from->heard && !look->rung && look->slept_ns > UNRUNG_NS) {
        from->heard = false;
        from->address = 0;
        bells->heard_count--;
    }
}
