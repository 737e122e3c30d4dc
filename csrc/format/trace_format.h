/*
 * The access trace: what the programs of a job opened, and what they waited for.
 *
 * While the job runs it lies at the end of the job segment, in lanes: one for each thread, which
 * alone writes it, with plain instructions. A lane is exact counters, and a ring of notes of 8
 * bytes of which the newest stay. Threads beyond the lanes share lane 0, and add atomically.
 *
 *     struct fan_trace | lane_count times struct fan_lane | lane_count rings of ring_notes notes
 *
 * A writer takes a place of its ring (head), then writes there. Each note holds the lap of its
 * place, so that a reader knows one that was taken and is not written yet. A reader copies notes,
 * looks at head again, and drops those that may have been overwritten meanwhile.
 *
 * A kept trace is a file of sections, each compressed and checked by itself (docs/format.md).
 */
#ifndef FAN_FORMAT_TRACE_FORMAT_H
#define FAN_FORMAT_TRACE_FORMAT_H

#include <stdint.h>

#define FAN_NOTE_NO_FILE UINT32_C(0xffffffff)
#define FAN_NOTE_PAYLOAD_MAX UINT32_C(0xffffff)
#define FAN_TRACE_FILE_MAGIC "FANTRAC\n"

/* cffi: begin */
enum {
    FAN_TRACE_VERSION = 1,
    FAN_TRACE_LAYOUT_ID = 0x46540001,
    FAN_LANES_LEAST = 128, /* of a job on one node; four for each CPU where those are more */
    FAN_LANES_MOST = 1024,
    FAN_RING_NOTES = 2048,           /* of a lane; a power of two */
    FAN_NOTES_PER_TIME = 64,         /* one of so many places of a ring holds the time */
    FAN_TRACE_BLOCK_BYTES = 1048576, /* reads of larger files are noted by such pieces */
    FAN_STALL_BINS = 40,             /* of a histogram of times, by powers of two of ns */
    FAN_COMM_BYTES = 16,             /* of a program's name, with its NUL (prctl(2), PR_GET_NAME) */
    FAN_TRACE_SECTION_MAGIC = 0x53525446,
    FAN_TRACE_SECTION_BYTES_MAX = 67108864 /* of a section, decompressed */
};

enum fan_lane_state {
    FAN_LANE_FREE = 0,
    FAN_LANE_CLAIMED = 1, /* its owner is filling in who it is */
    FAN_LANE_LIVE = 2,
    FAN_LANE_SHARED = 3
};

/* A note, from bit 0: payload 24 bits, record id 32 (FAN_NOTE_NO_FILE: none), mount 4, lap 1, kind
 * 3. lap is 1 in the first round of the ring, 0 in the second, and so on. */
enum fan_note_kind {
    FAN_NOTE_NONE = 0,
    FAN_NOTE_TIME = 1,  /* bits 0 to 59: ns since base_ns */
    FAN_NOTE_OPEN = 2,  /* payload: 0 */
    FAN_NOTE_BLOCK = 3, /* the next 1 MiB of a file that is larger; payload: which, from 0 */
    FAN_NOTE_STALL = 4, /* a wait that ended at the time noted before; payload: see below */
    FAN_NOTE_SAMPLE = 5 /* a loader reads a sample next; in place of the record its number,
                           FAN_NOTE_NO_FILE: none any more; payload: of which dataset */
};

/* What a thread waited for: bits 21 to 23 of a stall. Bits 0 to 15 and 16 to 20 are m and e of how
 * long, m << e in ns. */
enum fan_stall_source {
    FAN_STALL_DISK = 0,   /* a pack on the local disk, read with pread */
    FAN_STALL_CACHE = 1,  /* a block that was in the cache when the daemon looked, or room there */
    FAN_STALL_RANK = 2,   /* a block from another rank */
    FAN_STALL_SHARED = 3, /* the shared file system, read by the daemon or the process itself */
    FAN_STALL_OUTPUT = 4, /* the daemon's answer about an output */
    FAN_STALL_SOURCES = 5
};

/* Waits for one source. bins: how many took from 2^n ns on, less than 2^(n+1); the last one holds
 * all longer ones. bytes: the stored bytes that came from there, waited for or not. */
struct fan_stalls {
    uint64_t count;
    uint64_t ns;
    uint64_t bytes;
    uint64_t bins[FAN_STALL_BINS];
};

/* What one thread did, or several one after the other: never set back. */
struct fan_counters {
    uint64_t opens;
    uint64_t reads;
    uint64_t read_bytes;
    uint64_t stats;
    uint64_t decoded_bytes;
    uint64_t mapped_bytes; /* of packs; what is mapped from a copy was read */
    uint64_t directory_opens;
    uint64_t errors;
    uint64_t missing;
    uint64_t refused_writes;
    uint64_t cache_hits;   /* blocks found in the block cache */
    uint64_t cache_misses; /* blocks asked of the daemon */
    uint64_t remote_bytes; /* stored bytes copied out of the block cache */
    uint64_t shared_reads; /* reads of packs where they lie, remote ones that failed among them */
    uint64_t shared_bytes;
    uint64_t remote_opens;
    struct fan_stalls stalls[FAN_STALL_SOURCES];
};

/* One lane. Its owner: pid and tid as in the PID namespace pid_space (the inode number of
 * /proc/self/ns/pid, 0: unknown); process: which of the programs of the job on this node, from 1;
 * start_ns: when it was claimed, since base_ns; first: head at that time. head: places that were
 * ever taken. */
struct fan_lane {
    uint32_t state; /* atomic */
    uint32_t process;
    uint32_t pid;
    uint32_t tid;
    uint32_t pid_space;
    uint32_t reserved;
    uint64_t start_ns;
    uint8_t comm[FAN_COMM_BYTES];
    uint64_t first;
    uint64_t reserved_too;
    uint64_t head;
    struct fan_counters counters;
    uint64_t padding[16];
};

/* Where lanes and rings lie, from the start of the segment. ring_notes: 0 where there are no notes.
 * base_ns: CLOCK_MONOTONIC when the trace began; base_realtime_ns: the time of day then. processes:
 * the last number given to a program, atomic. ended: what was counted in lanes whose owners have
 * ended; the daemon moves it there, and adds 1 to `moves` before and after. */
struct fan_trace {
    uint64_t lanes_offset;
    uint64_t rings_offset;
    uint32_t lane_count;
    uint32_t ring_notes;
    uint64_t base_ns;
    uint64_t base_realtime_ns;
    uint32_t processes;
    uint32_t moves;
    struct fan_counters ended;
};

/* A kept trace begins with this; sections follow, up to the end of the file. checksum: XXH3-64 of
 * the bytes before it. */
struct fan_trace_file_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t layout_id;
    uint64_t reserved[5];
    uint64_t checksum;
};

/* In front of each section: stored_bytes of one Zstandard frame, which is bytes when decompressed.
 * rank: whose it is. content_checksum: XXH3-64 of the stored bytes; checksum: of this header before
 * it. */
struct fan_trace_section {
    uint32_t magic;
    uint32_t kind;
    uint32_t rank;
    uint32_t reserved;
    uint64_t bytes;
    uint64_t stored_bytes;
    uint64_t content_checksum;
    uint64_t checksum;
};

enum fan_trace_section_kind {
    FAN_TRACE_JOB = 1,       /* JSON in UTF-8, of one rank: see docs/format.md */
    FAN_TRACE_PROCESSES = 2, /* struct fan_traced_process, one after the other */
    FAN_TRACE_NOTES = 3,     /* runs: a struct fan_traced_run, and its notes */
    FAN_TRACE_END = 4,       /* the trace of this rank is whole; empty, or JSON in UTF-8 */
    FAN_TRACE_SAMPLES = 5    /* struct fan_traced_sample, one after the other */
};

/* What a program counted in one lane since the entry before: entries add up. start_ns: when the
 * lane was claimed, end_ns: when its thread was seen to have ended, since base_ns; 0: it had not.
 * process 0: the threads beyond the lanes. dropped: notes that were overwritten before they were
 * kept. */
struct fan_traced_process {
    uint32_t process;
    uint32_t pid;
    uint32_t pid_space;
    uint32_t lane;
    uint64_t start_ns;
    uint64_t end_ns;
    uint8_t comm[FAN_COMM_BYTES];
    uint64_t dropped;
    struct fan_counters counters;
};

/* What all programs of a rank had counted by some time, since base_ns, and how its daemon was then.
 * cache_used_bytes: of the block cache; published: outputs, of which placed are in the output
 * directory and waiting_bytes are still to be copied there. */
struct fan_traced_sample {
    uint64_t time_ns;
    uint64_t opens;
    uint64_t remote_opens;
    uint64_t read_bytes;
    uint64_t stall_ns[FAN_STALL_SOURCES];
    uint64_t stall_bytes[FAN_STALL_SOURCES];
    uint64_t cache_bytes;
    uint64_t cache_used_bytes;
    uint64_t published;
    uint64_t placed;
    uint64_t waiting_bytes;
};

/* Notes of one owner of one lane, in their order. Runs of one lane belong together in the order of
 * the file; a time goes on from one to the next. */
struct fan_traced_run {
    uint32_t lane;
    uint32_t process;
    uint32_t count;
    uint32_t reserved;
};
/* cffi: end */

#endif
