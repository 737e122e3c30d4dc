/*
 * The lanes of the access trace: counts are exact and notes whole, whatever threads, signal
 * handlers, children and killed processes do; the daemon's sum and its freeing of lanes.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../csrc/client/handoff/handoff.h"
#include "../../csrc/client/job/job.h"
#include "../../csrc/client/machine/vfork.h"
#include "../../csrc/common/sys.h"
#include "../../csrc/trace/lanes.h"
#include "../../tools/fuzz/jobdir.h"
#include "../../tools/fuzz/tree.h"
#include "check.h"

enum { SIGNALS = 1000 };
enum { CAPACITY = 1 << 18, THREADS = JOBDIR_LANES + 36, OPENS = 5000, FILES = 1000 };

static uint64_t *shared; /* with children: what they have done */

static uint64_t total(size_t field)
{
    uint64_t sum = 0;
    const struct fan_lanes *all = &fan_lanes;
    sum += *(const uint64_t *)((const char *)&all->trace->ended + field);
    for (uint32_t i = 0; i < all->lane_count; i++)
        sum += __atomic_load_n((const uint64_t *)((const char *)&all->lanes[i].counters + field),
                               __ATOMIC_RELAXED);
    return sum;
}

static uint64_t opens(void)
{
    return total(offsetof(struct fan_counters, opens));
}

static void open_some(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        fan_trace_open(3, i % FILES);
}

/* All places of a ring that were ever taken hold a note of that lap. */
static void check_ring(const struct fan_lane *lane)
{
    const uint64_t *ring = fan_lanes.rings + (lane - fan_lanes.lanes) * FAN_RING_NOTES;
    uint64_t first = lane->head > FAN_RING_NOTES ? lane->head - FAN_RING_NOTES : 0;
    for (uint64_t place = first; place < lane->head; place++) {
        uint64_t note = __atomic_load_n(&ring[place % FAN_RING_NOTES], __ATOMIC_RELAXED);
        CHECK((note >> 60 & 1) == (~(place / FAN_RING_NOTES) & 1));
        CHECK(note >> 61 == FAN_NOTE_TIME || note >> 61 == FAN_NOTE_OPEN ||
              note >> 61 == FAN_NOTE_STALL);
        if (note >> 61 == FAN_NOTE_OPEN) {
            CHECK((note >> 56 & 15) == 3);
            CHECK((note >> 24 & UINT32_MAX) < FILES);
        }
    }
}

static void check_rings(void)
{
    for (uint32_t i = 0; i < fan_lanes.lane_count; i++)
        check_ring(&fan_lanes.lanes[i]);
}

/* What the daemon does, for all lanes of threads that have ended. */
static void free_lanes(const struct fan_lane *but)
{
    char *segment = (char *)fan_lanes.trace - jobdir_trace_offset();
    uint64_t before = opens();
    for (uint32_t i = 1; i < fan_lanes.lane_count; i++) {
        struct fan_counters counted = {0};
        struct fan_lane *lane = &fan_lanes.lanes[i];
        uint64_t had = lane->counters.opens;
        if (lane->state != FAN_LANE_LIVE || lane == but)
            continue;
        CHECK(fan_trace_retire(segment, jobdir_segment_bytes(), i, &counted) == 0);
        CHECK(counted.opens == had && lane->counters.opens == 0);
        CHECK(lane->state == FAN_LANE_FREE);
    }
    CHECK(opens() == before);
    struct fan_counters sum;
    CHECK(fan_trace_sum(segment, jobdir_segment_bytes(), &sum) == 0 && sum.opens == before);
    CHECK(fan_trace_retire(segment, jobdir_segment_bytes(), fan_lanes.lane_count, &sum) < 0);
    CHECK(fan_trace_retire(segment, jobdir_segment_bytes(), 0, &sum) < 0);
    CHECK(fan_trace_sum(segment, 8, &sum) < 0);
}

static atomic_bool reading = true;

static void *read_meanwhile(void *unused)
{
    uint64_t last = 0;
    (void)unused;
    while (atomic_load(&reading)) {
        uint64_t now = opens();
        CHECK(now >= last);
        last = now;
        sched_yield();
    }
    return NULL;
}

static pthread_barrier_t all_there;

static void *run_thread(void *unused)
{
    (void)unused;
    open_some(OPENS);
    fan_trace_stall(FAN_STALL_RANK, 3, 7, 12345);
    pthread_barrier_wait(&all_there); /* so that each has a lane at the same time, or none */
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[THREADS], reader;
    uint64_t before = opens();
    pthread_barrier_init(&all_there, NULL, THREADS);
    CHECK(pthread_create(&reader, NULL, read_meanwhile, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run_thread, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_store(&reading, false);
    CHECK(pthread_join(reader, NULL) == 0);
    CHECK(opens() - before == (uint64_t)THREADS * OPENS);
    CHECK(fan_lanes.lanes[0].counters.opens > 0); /* some shared one */
    size_t stalls =
        offsetof(struct fan_counters, stalls) + FAN_STALL_RANK * sizeof(struct fan_stalls);
    CHECK(total(stalls + offsetof(struct fan_stalls, count)) == THREADS);
    CHECK(total(stalls + offsetof(struct fan_stalls, ns)) == THREADS * UINT64_C(12345));
    CHECK(total(stalls + offsetof(struct fan_stalls, bins) + 13 * sizeof(uint64_t)) == THREADS);
    check_rings();
    free_lanes(NULL);
}

static volatile sig_atomic_t in_handler;

static void on_signal(int number)
{
    (void)number;
    open_some(3);
    in_handler++;
}

static pthread_t counting;

static void *send_signals(void *unused)
{
    (void)unused;
    for (int i = 0; i < SIGNALS; i++) {
        CHECK(pthread_kill(counting, SIGUSR1) == 0);
        usleep(20);
    }
    return NULL;
}

static void check_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
    pthread_t sender;
    uint64_t before = opens(), done = 0;
    counting = pthread_self();
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_create(&sender, NULL, send_signals, NULL) == 0);
    for (; done < OPENS * 200; done++)
        open_some(1);
    CHECK(pthread_join(sender, NULL) == 0);
    CHECK(opens() - before == done + 3 * (uint64_t)in_handler);
    CHECK(fan_thread_lane.lane != fan_lanes.lanes);
    check_ring(fan_thread_lane.lane);
}

static void check_child(pid_t pid)
{
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, __WALL) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A child made by libc's fork, which runs no handler of ours here, and one made past libc. */
static void check_forks(void)
{
    for (int past_libc = 0; past_libc < 2; past_libc++) {
        const struct fan_lane *lane = fan_thread_lane.lane;
        uint64_t before = opens(), own = lane->counters.opens;
        pid_t pid = past_libc ? (pid_t)FAN_SYS(clone, SIGCHLD, 0, 0, 0, 0) : fork();
        open_some(OPENS);
        if (pid == 0)
            _exit(fan_thread_lane.lane == lane || fan_thread_lane.lane->process == lane->process);
        check_child(pid);
        CHECK(opens() - before == 2 * OPENS);
        CHECK(lane->counters.opens - own == OPENS);
        free_lanes(lane);
    }
}

/* Children that are killed while they count: what they had done by then is counted, and at most
 * what they did next. */
static void check_kills(void)
{
    const struct fan_lane *own = fan_thread_lane.lane;
    for (int i = 0; i < 50; i++) {
        uint64_t before = opens();
        __atomic_store_n(shared, 0, __ATOMIC_SEQ_CST);
        pid_t pid = fork();
        if (pid == 0) {
            for (;;) {
                open_some(1);
                __atomic_fetch_add(shared, 1, __ATOMIC_SEQ_CST);
            }
        }
        while (__atomic_load_n(shared, __ATOMIC_SEQ_CST) < (uint64_t)i * 20 + 1)
            sched_yield();
        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
        uint64_t done = __atomic_load_n(shared, __ATOMIC_SEQ_CST), counted = opens() - before;
        CHECK(counted == done || counted == done + 1);
        free_lanes(own);
        CHECK(opens() - before == counted);
    }
}

static void run_in_thread(void *(*what)(void *))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, what, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

#ifndef __SANITIZE_THREAD__ /* it takes what shares its memory for a fork child */
static int share_memory(void *unused)
{
    (void)unused;
    open_some(OPENS * 10);
    return 0;
}

/* A vfork child goes on with the lane of the thread that waits for it; a thread without a lane gets
 * none there, and has one afterwards. */
static void *check_vfork(void *unused)
{
    static char stack[65536] __attribute__((aligned(16)));
    (void)unused;
    uint64_t before = opens();
    for (int i = 0; i < 2; i++) {
        const struct fan_lane *lane = fan_thread_lane.lane;
        fan_vfork_expect();
        check_child(
            clone(share_memory, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, 0));
        fan_vfork_over();
        CHECK(fan_thread_lane.lane == lane);
        open_some(1);
        CHECK(fan_thread_lane.lane->tid == (uint32_t)FAN_SYS(gettid));
    }
    CHECK(opens() - before == 2 * (OPENS * 10 + 1));
    return NULL;
}

/* A process that shares memory and thread-local memory with a thread that runs on. */
static void *check_shared_memory(void *unused)
{
    static char stack[65536] __attribute__((aligned(16)));
    (void)unused;
    open_some(1);
    uint64_t before = opens();
    fan_lane_share();
    pid_t pid = clone(share_memory, stack + sizeof(stack), CLONE_VM | SIGCHLD, 0);
    open_some(OPENS * 10);
    check_child(pid);
    CHECK(opens() - before == 2 * OPENS * 10);
    return NULL;
}
#endif

static int samples_in_lane(void)
{
    int count = 0;
    const struct fan_lane *lane = fan_thread_lane.lane;
    for (uint64_t place = lane->first; place < lane->head; place++)
        count += fan_thread_lane.ring[place % FAN_RING_NOTES] >> 61 == FAN_NOTE_SAMPLE;
    return count;
}

static void read_sample(unsigned number)
{
    uint64_t note = fan_note(FAN_NOTE_SAMPLE, 0, number, 5);
    fan_trace_sample(note, note);
}

/* A thread that notes no samples joins another's sample; a child that it forks joins none. */
static void *check_helper(void *unused)
{
    (void)unused;
    pid_t pid = (pid_t)FAN_SYS(clone, SIGCHLD, 0, 0, 0, 0);
    open_some(2);
    if (pid == 0)
        _exit(samples_in_lane());
    check_child(pid);
    CHECK(samples_in_lane() == 1);
    return NULL;
}

/* A thread that notes its own samples joins no other. */
static void *check_second_reader(void *unused)
{
    (void)unused;
    read_sample(2);
    open_some(1);
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&all_there);
    open_some(1);
    CHECK(samples_in_lane() == 1);
    return NULL;
}

static void check_samples(void)
{
    pthread_t thread;
    read_sample(1);
    run_in_thread(check_helper);
    pthread_barrier_init(&all_there, NULL, 2);
    CHECK(pthread_create(&thread, NULL, check_second_reader, NULL) == 0);
    pthread_barrier_wait(&all_there);
    int before = samples_in_lane();
    open_some(1);
    CHECK(samples_in_lane() == before);
    read_sample(3);
    pthread_barrier_wait(&all_there);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    static uint8_t buffer[CAPACITY] __attribute__((aligned(64)));
    size_t bytes = tree_fill((struct tree_shape){4, 12}, buffer, CAPACITY);
    CHECK(bytes > 0);
    jobdir_attach("test-lanes-job", buffer, bytes, TREE_PACK_BYTES);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    check_threads();
    check_signals();
    check_forks();
    check_kills();
#ifndef __SANITIZE_THREAD__ /* it takes what shares its memory for a fork child */
    run_in_thread(check_vfork);
    run_in_thread(check_shared_memory);
#endif
    check_samples();
    printf("test_lanes: no fault\n");
    return 0;
}
