/* When an answer is due. A rate is a line in which transfers wait: each moves its end on. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "slow.h"

enum { READERS_MAX = 4096 };

static double latencies_ns[KINDS], stream_rate, total_rates[READERS_MAX];
static unsigned total_points;

static struct {
    uint64_t calls, bytes;
} *counts;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of these and of all streams */
static uint64_t total_end_ns;
static unsigned readers; /* streams with a transfer in flight */

/* Reads numbers with commas between them; returns how many, 0 for other texts. */
static unsigned parse(const char *text, double *to, unsigned most)
{
    for (unsigned count = 0; count < most; text++) {
        char *end;
        to[count++] = strtod(text, &end);
        if (end == text || (*end != ',' && *end != '\0'))
            return 0;
        if (*end == '\0')
            return count;
        text = end;
    }
    return 0;
}

bool pace_init(int counts_fd, const char *latencies, const char *stream, const char *total)
{
    size_t bytes = KINDS * sizeof(*counts);
    counts = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, counts_fd, 0);
    total_points = parse(total, total_rates, READERS_MAX);
    return counts != MAP_FAILED && parse(latencies, latencies_ns, KINDS) == KINDS &&
           parse(stream, &stream_rate, 1) == 1 && total_points > 0;
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* Takes a place at the end of a line; returns when the transfer is done. */
static uint64_t take_place(uint64_t *end_ns, double rate, size_t bytes, uint64_t arrived_ns)
{
    if (rate <= 0)
        return arrived_ns;
    if (*end_ns < arrived_ns)
        *end_ns = arrived_ns;
    *end_ns += (uint64_t)((double)bytes * SECOND_NS / rate);
    return *end_ns;
}

static uint64_t transfer(struct stream *stream, size_t bytes, uint64_t arrived_ns)
{
    pthread_mutex_lock(&lock);
    readers += stream->in_flight++ == 0;
    double rate = total_rates[(readers < total_points ? readers : total_points) - 1];
    uint64_t stream_ns = take_place(&stream->end_ns, stream_rate, bytes, arrived_ns);
    uint64_t total_ns = take_place(&total_end_ns, rate, bytes, arrived_ns);
    pthread_mutex_unlock(&lock);
    return stream_ns > total_ns ? stream_ns : total_ns;
}

static void leave(struct stream *stream)
{
    pthread_mutex_lock(&lock);
    readers -= --stream->in_flight == 0;
    pthread_mutex_unlock(&lock);
}

void pace(enum kind kind, struct stream *stream, size_t bytes, uint64_t arrived_ns)
{
    __atomic_add_fetch(&counts[kind].calls, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&counts[kind].bytes, bytes, __ATOMIC_RELAXED);
    uint64_t due_ns = stream != NULL ? transfer(stream, bytes, arrived_ns) : arrived_ns;
    due_ns += (uint64_t)latencies_ns[kind];
    struct timespec due = {(time_t)(due_ns / SECOND_NS), (long)(due_ns % SECOND_NS)};
    if (due_ns > arrived_ns)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    if (stream != NULL)
        leave(stream);
}
