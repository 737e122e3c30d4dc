/*
 * This thread's lane of the access trace (trace_format.h): what it counts, opens and waits for. A
 * thread claims a free lane when it first counts something, and is then the lane's only writer. It
 * uses single instructions and no lock, so a signal handler may run between any two of them. The
 * node daemon frees the lanes of threads that have ended.
 *
 * Threads that find no free lane share lane 0 and add atomically; so do vfork children that would
 * have to claim a lane. Otherwise a vfork child uses the lane of its parent's thread, which waits.
 * A fork child, made by libc or past it, claims lanes of its own: the number of its program lies on
 * a page that the kernel zeroes in the child. After an exec the daemon sees two lanes of one
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../format/trace_format.h"
#include "../machine/page.h"

/* This process's mapping of the trace. rings: NULL if no notes are wanted. */
struct fan_lanes {
    struct fan_trace *trace;
    struct fan_lane *lanes;
    uint64_t *rings;
    uint64_t base_ns;
    uint32_t lane_count;
};

extern struct fan_lanes fan_lanes;

/* A thread's lane, valid while `program` is the number of the running program. ring: NULL if no
 * notes are wanted. shares: the program in which the thread found no free lane. block: the last
 * block noted. reading: the file of the thread's last read of a large file, as a note; read_end:
 * where that read ended; from_start: the reads before it go back to the file's start without a gap.
 * sample: the last note of a sample. opened: the inode number of the file opened last.
 * reads_samples: whether the thread has noted samples that it reads itself. serves: the tid of the
 * thread for which this one reads; 0: for itself; served: the note of that thread's lane. unlooked:
 * reads before the next look whether a pack's pages are in memory (fan_stored_look); looks: how
 * many in a row found all of them; look_end: where the bytes of the last look end.
 */
struct fan_thread_lane {
    struct fan_lane *lane;
    uint64_t *ring;
    uint64_t block;
    uint64_t reading;
    uint64_t read_end;
    bool from_start;
    uint64_t sample;
    uint64_t opened;
    uint64_t served;
    uint32_t serves;
    uint32_t program;
    uint32_t shares;
    bool reads_samples;
    uint32_t unlooked;
    uint32_t looks;
    const char *look_end;
};

extern __thread struct fan_thread_lane fan_thread_lane __attribute__((tls_model("initial-exec")));

/* The number of this program among those of the job, and the note of the sample that one of its
 * threads reads (0: none), on a page of its own. Both are 0 in a fork child, until it asks for a
 * number or notes a sample. */
struct fan_own_program {
    uint32_t number;
    uint64_t sample;
} __attribute__((aligned(FAN_PAGE_MAX_BYTES)));

extern struct fan_own_program fan_own_program;

/* Sets the job's trace. Call it once. */
void fan_lane_attach(const struct fan_lanes *lanes);

/* Call it in a fork child if the kernel did not zero the page of fan_own_program. */
void fan_lane_after_fork_child(void);

/* Makes this thread use the shared lane from now on, because another process uses the same
 * thread-local memory. */
void fan_lane_share(void);

/* Claims a lane for this thread. Returns false if the thread uses the shared lane. */
bool fan_lane_claim(void);

/* Returns whether this thread has a lane of its own, fan_thread_lane.lane. */
static inline bool fan_lane_is_own(void)
{
    uint32_t number = __atomic_load_n(&fan_own_program.number, __ATOMIC_RELAXED);
    bool own = fan_thread_lane.program == number;
    return __builtin_expect(own, 1) ? true : fan_lane_claim();
}

/* Adds to a field that only this thread writes, with one instruction: a signal handler on this
 * thread may add to the same field, and no count is lost. */
static inline void fan_lane_add(uint64_t *field, uint64_t amount)
{
#if defined(__x86_64__)
    __asm__ volatile("addq %1, %0" : "+m"(*field) : "er"(amount) : "cc");
#else
    __atomic_fetch_add(field, amount, __ATOMIC_RELAXED);
#endif
}

void fan_count_shared(size_t field, uint64_t amount) __attribute__((cold));

/* Adds to a counter of struct fan_counters, by its offset. */
static inline void fan_count(size_t field, uint64_t amount)
{
    if (__builtin_expect(fan_lane_is_own(), 1))
        fan_lane_add((uint64_t *)((char *)&fan_thread_lane.lane->counters + field), amount);
    else
        fan_count_shared(field, amount);
}

#define FAN_COUNT(field, amount) fan_count(offsetof(struct fan_counters, field), (uint64_t)(amount))

/* Makes a note without its lap. mount: as in struct fan_view; record: an id, or FAN_NOTE_NO_FILE.
 */
static inline uint64_t fan_note(enum fan_note_kind kind, uint64_t mount, uint64_t record,
                                uint64_t payload)
{
    return (uint64_t)kind << 61 | mount << 56 | record << 24 | payload;
}

/* Takes the next `count` places of a lane's ring and returns the first. */
static inline uint64_t fan_lane_take(uint64_t *head, uint64_t count)
{
#if defined(__x86_64__)
    __asm__ volatile("xaddq %0, %1" : "+r"(count), "+m"(*head) : : "cc");
    return count;
#else
    return __atomic_fetch_add(head, count, __ATOMIC_RELAXED);
#endif
}

static inline void fan_lane_put(uint64_t *ring, uint64_t place, uint64_t note)
{
    uint64_t lap = ~(place / FAN_RING_NOTES) & 1;
    __atomic_store_n(&ring[place % FAN_RING_NOTES], note | lap << 60, __ATOMIC_RELAXED);
}

/* Writes the time to the thread's ring at `place`, and returns another place for the note. */
uint64_t fan_lane_put_time(uint64_t place) __attribute__((cold));

void fan_note_shared(uint64_t note) __attribute__((cold));

/* Writes a note, and now and then the time before it. */
static inline void fan_lane_note(uint64_t note)
{
    if (__builtin_expect(!fan_lane_is_own(), 0)) {
        fan_note_shared(note);
        return;
    }
    uint64_t *ring = fan_thread_lane.ring;
    if (ring == NULL)
        return;
    uint64_t place = fan_lane_take(&fan_thread_lane.lane->head, 1);
    if (__builtin_expect(place % FAN_NOTES_PER_TIME == 0, 0))
        place = fan_lane_put_time(place);
    fan_lane_put(ring, place, note);
}

/* Notes that this thread reads a sample next, and that files which other threads of the process
 * open belong to `shared`, a note of a sample, too, unless they note samples themselves. */
void fan_trace_sample(uint64_t note, uint64_t shared);

/* Notes that what this thread opens next belongs to the sample that another thread reads, unless
 * this thread notes samples itself. note: 0 for no sample. */
void fan_trace_join(uint64_t note) __attribute__((cold));

/* Joins the sample that another thread of the process reads, if there is one. */
static inline void fan_trace_join_others(void)
{
    uint64_t sample = __atomic_load_n(&fan_own_program.sample, __ATOMIC_RELAXED);
    if (__builtin_expect(sample != fan_thread_lane.sample, 0))
        fan_trace_join(sample);
}

/* Counts and notes that a program opened a file. */
static inline void fan_trace_open(uint64_t mount, uint64_t record)
{
    FAN_COUNT(opens, 1);
    fan_thread_lane.opened = record + 2;
    fan_trace_join_others();
    fan_lane_note(fan_note(FAN_NOTE_OPEN, mount, record, 0));
}

/* Notes each MiB of a file that a read of [offset, offset + bytes) touches, except the one that
 * this thread noted last. has_pieces: or each piece, if it is read for a sample, and not from its
 * start on. */
void fan_trace_read(uint64_t mount, uint64_t record, uint64_t offset, uint64_t bytes,
                    bool has_pieces);

/* Says that this thread now reads for another one, whose tid is given. Its reads then count as that
 * thread's, and for the sample that it reads. */
void fan_trace_serve(uint32_t tid);

/* Counts and notes a wait of `ns` that has just ended. */
void fan_trace_stall(enum fan_stall_source source, uint64_t mount, uint64_t record, int64_t ns)
    __attribute__((cold));

/* Counts stored bytes that came from a source, whether the program waited for them or not. */
static inline void fan_trace_bytes(enum fan_stall_source source, uint64_t bytes)
{
    fan_count(offsetof(struct fan_counters, stalls) + source * sizeof(struct fan_stalls) +
                  offsetof(struct fan_stalls, bytes),
              bytes);
}
