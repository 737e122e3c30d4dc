/*
 * What the machine itself takes for the steps that no reader of files can avoid.
 *
 *     floors BYTES...
 *
 * Prints a line "NAME NS" for each: `miss`, a load from memory whose address the load before it
 * gave; `dup_close`, a duplicate of a descriptor made and closed; `wake`, from a thread's call that
 * wakes another until that one runs; `copy-BYTES`, a copy of so many bytes that no cache holds. Each
 * is the least of ROUNDS rounds, so that other load counts little.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "paths.h"

enum { ROUNDS = 15, LINE_BYTES = 64, CHASES = 50000, DUPS = 10000, WAKES = 2000 };
static const size_t LEAST_BYTES = (size_t)256 << 20, MOST_BYTES = (size_t)1 << 30;
static const size_t COPIED_BYTES = (size_t)512 << 20;

struct line {
    struct line *next;
    char rest[LINE_BYTES - sizeof(struct line *)];
};

/* Returns four times the last cache's size, within bounds. */
static size_t beyond_caches(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t bytes = cache > 0 ? 4 * (size_t)cache : LEAST_BYTES;
    return bytes < LEAST_BYTES ? LEAST_BYTES : bytes > MOST_BYTES ? MOST_BYTES : bytes;
}

/* Returns zeroed memory, in huge pages if the system has them: a miss is then no walk of page
 * tables. */
static void *memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    madvise(at, bytes, MADV_HUGEPAGE);
    memset(at, 0, bytes);
    return at;
}

static uint64_t state = 88172645463325252u; /* of random numbers */

/* Links all lines into one circle in random order (Sattolo's algorithm). */
static void link_lines(struct line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        lines[i].next = &lines[i];
    for (size_t i = count - 1; i > 0; i--) {
        size_t other = next_random(&state) % i;
        struct line *next = lines[i].next;
        lines[i].next = lines[other].next;
        lines[other].next = next;
    }
}

/* Returns the nanoseconds of one of `count` steps in the fastest of ROUNDS calls of `steps`. */
static double least_ns(void (*steps)(void *), void *with, size_t count)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = now_ns();
        steps(with);
        uint64_t taken = now_ns() - start;
        least = taken < least ? taken : least;
    }
    return (double)least / (double)count;
}

/* with: the line to go on from. */
static void chase(void *with)
{
    struct line **at = with;
    for (int i = 0; i < CHASES; i++)
        *at = (*at)->next;
}

static double miss_ns(void)
{
    size_t bytes = beyond_caches();
    struct line *lines = memory(bytes), *at = lines;
    link_lines(lines, bytes / sizeof(*lines));
    double taken = least_ns(chase, &at, CHASES);
    munmap(lines, bytes);
    return taken;
}

/* with: the descriptor. */
static void dup_and_close(void *with)
{
    for (int i = 0; i < DUPS; i++)
        close(fcntl(*(int *)with, F_DUPFD_CLOEXEC, 0));
}

static double dup_close_ns(void)
{
    int parked = open("/", O_PATH | O_CLOEXEC);
    if (parked < 0)
        fail("/");
    double taken = least_ns(dup_and_close, &parked, DUPS);
    close(parked);
    return taken;
}

/* Whose turn it is, 0 or 1: the futex on which both threads sleep. */
static _Atomic uint32_t turn;

static void pass_turns(uint32_t own)
{
    for (int i = 0; i < WAKES; i++) {
        /* acquire: pairs with the release of the thread that gave the turn */
        while (atomic_load_explicit(&turn, memory_order_acquire) != own)
            syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, !own, NULL);
        atomic_store_explicit(&turn, !own, memory_order_release);
        syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1);
    }
}

static void *other_thread(void *unused)
{
    pass_turns(1);
    return unused;
}

static void wake_each_other(void *unused)
{
    pthread_t other;
    if (pthread_create(&other, NULL, other_thread, unused) != 0)
        fail("pthread_create");
    pass_turns(0);
    pthread_join(other, NULL);
}

/* Copies of `bytes` bytes each. */
struct copies {
    const char *from;
    char *to;
    size_t bytes;
    size_t count;
};

/* Copies pieces of memory in random order, each to the same place. */
static void copy(void *with)
{
    struct copies *copies = with;
    for (size_t i = 0; i < copies->count; i++) {
        size_t piece = next_random(&state) % (COPIED_BYTES / copies->bytes);
        memcpy(copies->to, copies->from + piece * copies->bytes, copies->bytes);
        __asm__ volatile("" : : "r"(copies->to) : "memory"); /* every copy is made */
    }
}

static double copy_ns(const char *from, size_t bytes)
{
    size_t count = COPIED_BYTES / 8 / bytes;
    struct copies copies = {from, memory(bytes), bytes, count < 4096 ? count : 4096};
    double taken = least_ns(copy, &copies, copies.count);
    munmap(copies.to, bytes);
    return taken;
}

int main(int argc, char **argv)
{
    printf("miss %.2f\n", miss_ns());
    printf("dup_close %.1f\n", dup_close_ns());
    printf("wake %.0f\n", least_ns(wake_each_other, NULL, 2 * WAKES));
    char *from = argc > 1 ? memory(COPIED_BYTES) : NULL;
    for (int i = 1; i < argc; i++) {
        size_t bytes = strtoul(argv[i], NULL, 10);
        if (bytes == 0 || bytes > COPIED_BYTES)
            return 2;
        printf("copy-%zu %.0f\n", bytes, copy_ns(from, bytes));
    }
    return 0;
}
