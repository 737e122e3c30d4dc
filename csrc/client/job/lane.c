#include "lane.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "../../common/sys.h"
#include "../machine/clock.h"
#include "../machine/fault.h"
#include "../machine/limits.h"
#include "../machine/vfork.h"

enum { NO_PROGRAM = UINT32_MAX };

__thread struct fan_thread_lane fan_thread_lane = {.program = NO_PROGRAM};
struct fan_own_program fan_own_program;

struct fan_lanes fan_lanes;

void fan_lane_attach(const struct fan_lanes *attached)
{
    fan_lanes = *attached;
    FAN_SYS(madvise, &fan_own_program, sizeof(fan_own_program), MADV_WIPEONFORK);
}

void fan_lane_after_fork_child(void)
{
    fan_own_program.number = 0;
    fan_own_program.sample = 0;
}

/* Returns the number of this program; takes a new one if it has none. */
static uint32_t program_number(void)
{
    uint32_t number = __atomic_load_n(&fan_own_program.number, __ATOMIC_ACQUIRE);
    if (number != 0)
        return number;
    uint32_t fresh = __atomic_add_fetch(&fan_lanes.trace->processes, 1, __ATOMIC_RELAXED);
    bool first = __atomic_compare_exchange_n(&fan_own_program.number, &number, fresh, false,
                                             __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return first ? fresh : number;
}

/* Returns the inode number of this process's PID namespace, or 0 if /proc does not tell it. */
static uint32_t pid_space(void)
{
    struct stat st;
    long rc = FAN_SYS(newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0);
    return rc == 0 ? (uint32_t)st.st_ino : 0;
}

static uint64_t since_base_ns(void)
{
    return (uint64_t)fan_clock_ns() - fan_lanes.base_ns;
}

static struct fan_lane *find_free(unsigned tid)
{
    uint32_t others = fan_lanes.lane_count - 1;
    for (uint32_t i = 0; i < others; i++) {
        struct fan_lane *lane = &fan_lanes.lanes[1 + (tid + i) % others];
        uint32_t expected = FAN_LANE_FREE;
        if (__atomic_load_n(&lane->state, __ATOMIC_RELAXED) == FAN_LANE_FREE &&
            __atomic_compare_exchange_n(&lane->state, &expected, FAN_LANE_CLAIMED, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return lane;
    }
    return NULL;
}

static void sign(struct fan_lane *lane, uint32_t program, unsigned tid)
{
    lane->process = program;
    lane->pid = (uint32_t)FAN_SYS(getpid);
    lane->tid = tid;
    lane->pid_space = pid_space();
    lane->start_ns = since_base_ns();
    lane->first = lane->head;
    FAN_SYS(prctl, PR_GET_NAME, lane->comm, 0, 0, 0);
}

static uint64_t *ring_of(const struct fan_lane *lane)
{
    return fan_lanes.rings != NULL ? fan_lanes.rings + (lane - fan_lanes.lanes) * FAN_RING_NOTES
                                   : NULL;
}

static void put_time(uint64_t *ring, uint64_t place)
{
    fan_lane_put(ring, place, (uint64_t)FAN_NOTE_TIME << 61 | since_base_ns());
}

/* Claims a free lane, with signals blocked: a handler would claim another lane. */
static bool claim(struct fan_thread_lane *own, uint32_t program)
{
    unsigned tid = (unsigned)FAN_SYS(gettid);
    struct fan_lane *lane = find_free(tid);
    if (lane == NULL) {
        own->shares = program;
        return false;
    }
    sign(lane, program, tid);
    own->lane = lane;
    own->ring = ring_of(lane);
    own->block = 0;
    own->program = program;
    if (own->ring != NULL)
        put_time(own->ring, fan_lane_take(&lane->head, 1));
    __atomic_store_n(&lane->state, FAN_LANE_LIVE, __ATOMIC_RELEASE);
    return true;
}

bool fan_lane_claim(void)
{
    struct fan_thread_lane *own = &fan_thread_lane;
    if (fan_lanes.lanes == NULL || fan_in_vfork_child())
        return false;
    uint32_t program = program_number();
    if (own->shares == program)
        return false;
    if (fan_restricted()) {
        own->shares = program;
        return false;
    }
    fan_fault_init(); /* the memory of the lanes may be lost */
    uint64_t before, all = ~(UINT64_C(1) << (SIGBUS - 1) | UINT64_C(1) << (SIGSEGV - 1));
    FAN_SYS(rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
    bool has = own->program == program || claim(own, program);
    FAN_SYS(rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    return has;
}

void fan_lane_share(void)
{
    if (fan_lanes.lanes == NULL)
        return;
    fan_thread_lane.shares = program_number();
    fan_thread_lane.program = NO_PROGRAM;
}

void fan_count_shared(size_t field, uint64_t amount)
{
    if (fan_lanes.lanes != NULL)
        __atomic_fetch_add((uint64_t *)((char *)&fan_lanes.lanes->counters + field), amount,
                           __ATOMIC_RELAXED);
}

uint64_t fan_lane_put_time(uint64_t place)
{
    put_time(fan_thread_lane.ring, place);
    return fan_lane_take(&fan_thread_lane.lane->head, 1);
}

void fan_note_shared(uint64_t note)
{
    if (fan_lanes.rings == NULL)
        return;
    uint64_t place = __atomic_fetch_add(&fan_lanes.lanes->head, 1, __ATOMIC_RELAXED);
    if (place % FAN_NOTES_PER_TIME == 0) {
        put_time(fan_lanes.rings, place);
        place = __atomic_fetch_add(&fan_lanes.lanes->head, 1, __ATOMIC_RELAXED);
    }
    fan_lane_put(fan_lanes.rings, place, note);
}

static void note_blocks(uint64_t mount, uint64_t record, uint64_t offset, uint64_t end)
{
    for (uint64_t block = offset / FAN_TRACE_BLOCK_BYTES;
         block <= (end - 1) / FAN_TRACE_BLOCK_BYTES; block++) {
        uint64_t note = fan_note(FAN_NOTE_BLOCK, mount, record, block);
        if (note != fan_thread_lane.block)
            fan_lane_note(note);
        fan_thread_lane.block = note;
    }
}

/* Returns whether a read belongs to a run of reads that began at the start of its file. */
static bool reads_from_start(uint64_t file, uint64_t offset, uint64_t end)
{
    struct fan_thread_lane *own = &fan_thread_lane;
    bool goes_on = own->reading == file && own->read_end == offset;
    own->from_start = offset == 0 || (goes_on && own->from_start);
    own->reading = file;
    own->read_end = end;
    return own->from_start;
}

void fan_trace_serve(uint32_t tid)
{
    fan_thread_lane.serves = fan_lane_is_own() ? tid : 0;
}

static bool is_lane_of(const struct fan_lane *lane, uint32_t tid)
{
    return lane->tid == tid && lane->pid_space == fan_thread_lane.lane->pid_space &&
           __atomic_load_n(&lane->state, __ATOMIC_ACQUIRE) == FAN_LANE_LIVE;
}

/* Returns the number of the lane of a thread in this PID namespace; 0 if it has none. Looks first
 * at the lane that was found last: each other one costs a miss of the processor's cache. */
static uint32_t lane_of(uint32_t tid)
{
    uint32_t number = (uint32_t)(fan_thread_lane.served >> 24);
    if (number != 0 && is_lane_of(&fan_lanes.lanes[number], tid))
        return number;
    for (number = fan_lanes.lane_count - 1; number > 0; number--) {
        if (is_lane_of(&fan_lanes.lanes[number], tid))
            break;
    }
    return number;
}

/* Returns the note of the sample that the thread of a lane reads, 0 if it is not among its last
 * notes. Of a batch that is read as a whole, which sample is unknown. */
static uint64_t sample_in(uint32_t number)
{
    enum { LOOKS = 256 };
    const uint64_t *ring = fan_lanes.rings + (uint64_t)number * FAN_RING_NOTES;
    uint64_t head = __atomic_load_n(&fan_lanes.lanes[number].head, __ATOMIC_RELAXED);
    for (uint64_t i = 1; i <= LOOKS && i <= head; i++) {
        uint64_t note = __atomic_load_n(&ring[(head - i) % FAN_RING_NOTES], __ATOMIC_RELAXED);
        note &= ~(UINT64_C(1) << 60);
        if (note >> 61 == FAN_NOTE_SAMPLE)
            return note >> 56 & 15 ? note | (uint64_t)FAN_NOTE_NO_FILE << 24 : note;
    }
    return 0;
}

/* Notes for which thread this one reads, if that has changed, and its sample. Returns whether it
 * reads one. */
static bool joins_served(void)
{
    struct fan_thread_lane *own = &fan_thread_lane;
    if (own->ring == NULL)
        return false;
    uint32_t number = lane_of(own->serves);
    uint64_t reader = fan_note(FAN_NOTE_READER, 0, number, 0);
    uint64_t sample = number != 0 ? sample_in(number) : 0;
    if (sample == 0)
        return false;
    if (reader != own->served || sample != own->sample) {
        fan_lane_note(reader);
        fan_lane_note(sample & ~(UINT64_C(15) << 56));
    }
    own->served = reader;
    own->sample = sample;
    return true;
}

/* Returns whether a read is for a sample, and is not one of a run from the start of its file; then
 * notes the sample if needed. */
static bool is_of_sample(uint64_t file, uint64_t offset, uint64_t end)
{
    if (fan_thread_lane.serves != 0)
        return joins_served();
    if (__atomic_load_n(&fan_own_program.sample, __ATOMIC_RELAXED) == 0 ||
        reads_from_start(file, offset, end))
        return false;
    fan_trace_join_others();
    return true;
}

void fan_trace_read(uint64_t mount, uint64_t record, uint64_t offset, uint64_t bytes,
                    bool has_pieces)
{
    uint64_t file = fan_note(FAN_NOTE_PIECE, mount, record, 0), end = offset + bytes;
    if (!has_pieces || !is_of_sample(file, offset, end)) {
        note_blocks(mount, record, offset, end);
        return;
    }
    for (uint64_t piece = offset / FAN_PIECE_BYTES;
         piece <= (end - 1) / FAN_PIECE_BYTES && piece <= FAN_NOTE_PAYLOAD_MAX; piece++)
        fan_lane_note(file | piece);
}

/* Returns the payload of a stall: the highest 16 bits of its time, and by how many bits they are
 * shifted. */
static uint64_t stall_payload(enum fan_stall_source source, uint64_t ns)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(ns | 1);
    unsigned shift = bits > 16 ? bits - 16 : 0;
    return (uint64_t)source << 21 | (uint64_t)shift << 16 | ns >> shift;
}

/* Writes two notes side by side, even if others write to the ring. */
static void put_stall(uint64_t note)
{
    bool own = fan_lane_is_own();
    uint64_t *ring = own ? fan_thread_lane.ring : fan_lanes.rings;
    if (ring == NULL)
        return;
    uint64_t place = own ? fan_lane_take(&fan_thread_lane.lane->head, 2)
                         : __atomic_fetch_add(&fan_lanes.lanes->head, 2, __ATOMIC_RELAXED);
    put_time(ring, place);
    fan_lane_put(ring, place + 1, note);
}

void fan_trace_stall(enum fan_stall_source source, uint64_t mount, uint64_t record, int64_t ns)
{
    uint64_t waited_ns = ns > 0 ? (uint64_t)ns : 0;
    unsigned bin = 63 - (unsigned)__builtin_clzll(waited_ns | 1);
    size_t at = offsetof(struct fan_counters, stalls) + source * sizeof(struct fan_stalls);
    fan_count(at + offsetof(struct fan_stalls, count), 1);
    fan_count(at + offsetof(struct fan_stalls, ns), waited_ns);
    fan_count(at + offsetof(struct fan_stalls, bins) +
                  (bin < FAN_STALL_BINS ? bin : FAN_STALL_BINS - 1) * sizeof(uint64_t),
              1);
    put_stall(fan_note(FAN_NOTE_STALL, mount, record, stall_payload(source, waited_ns)));
}

void fan_trace_sample(uint64_t note, uint64_t shared)
{
    fan_lane_note(note);
    fan_thread_lane.sample = shared;
    fan_thread_lane.reads_samples = true;
    __atomic_store_n(&fan_own_program.sample, shared, __ATOMIC_RELAXED);
}

void fan_trace_join(uint64_t note)
{
    if (fan_thread_lane.reads_samples)
        return;
    fan_thread_lane.sample = note;
    if (note != 0 && fan_lane_is_own())
        fan_lane_note(note);
}
