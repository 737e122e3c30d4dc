/*
 * The access trace: the files that the programs of a job opened, and their waits.
 *
 * While the job runs, the trace lies at the end of the job segment, in lanes. Each lane belongs to
 * one thread, its only writer, which uses plain instructions. A lane has exact counters, and a ring
 * of 8-byte notes that keeps the newest ones. Threads for which there is no lane share lane 0, and
 * add atomically.
 *
 *     struct fan_trace | lane_count times struct fan_lane | lane_count rings of ring_notes notes
 *
 * A writer takes a place of its ring (head), then writes there. Each note holds the lap in which it
 * was written, so that a reader notices a place that was taken but is not written yet. A reader
 * copies notes, reads head again, and drops the notes that may have been overwritten meanwhile.
 *
 * A saved trace is a file of sections, each with its own compression and checksum (docs/format.md).
 */
#pragma once

#include <stdint.h>

#define FAN_NOTE_NO_FILE UINT32_C(0xffffffff)
#define FAN_NOTE_PAYLOAD_MAX UINT32_C(0xffffff)
#define FAN_TRACE_FILE_MAGIC "FANTRAC\n"

/* cffi: begin */
enum {
    FAN_TRACE_VERSION = 1,
    FAN_TRACE_LAYOUT_ID = 0x46540001,
    FAN_LANES_LEAST = 128, /* lanes of a job on one node; four for each CPU if that is more */
    FAN_LANES_MOST = 1024,
    FAN_RING_NOTES = 2048,            /* notes in the ring of a lane; a power of two */
    FAN_NOTES_PER_TIME = 64,          /* one note in this many is the time */
    FAN_TRACE_BLOCK_BYTES = 1048576,  /* reads of larger files are noted once for each such block */
    FAN_PIECES_ABOVE_BYTES = 8388608, /* larger files are foreseen in pieces, smaller ones whole */
    FAN_PIECE_BYTES = 16384,
    FAN_STALL_BINS = 40,
    FAN_COMM_BYTES = 16, /* of a program's name, with its NUL: prctl(2), PR_GET_NAME */
    FAN_TRACE_SECTION_MAGIC = 0x53525446,
    FAN_TRACE_SECTION_BYTES_MAX = 67108864 /* the most bytes of a section, decompressed */
};

enum fan_lane_state {
    FAN_LANE_FREE = 0,
    FAN_LANE_CLAIMED = 1, /* its owner is filling in the fields */
    FAN_LANE_LIVE = 2,
    FAN_LANE_SHARED = 3
};

/* A note, from bit 0: payload 24 bits, record id 32 (FAN_NOTE_NO_FILE: none), mount 4, lap 1, kind
 * 3. lap is 1 in the first round of the ring, 0 in the second, and so on. */
enum fan_note_kind {
    FAN_NOTE_NONE = 0,
    FAN_NOTE_TIME = 1,   /* bits 0 to 59: ns since base_ns */
    FAN_NOTE_OPEN = 2,   /* the record was opened; payload: 0 */
    FAN_NOTE_BLOCK = 3,  /* a read reached another 1 MiB of a large file; payload: which, from 0 */
    FAN_NOTE_STALL = 4,  /* a thread waited until the last noted time; payload: see below */
    FAN_NOTE_PIECE = 6,  /* a read for a sample reached a piece of a large, uncompressed file, and
                          * the file is not read from its start; payload: which piece, from 0 */
    FAN_NOTE_READER = 7, /* what this thread notes from now on, another thread has caused, which
                          * touched a mapping; the number of its lane is in place of the record */
    FAN_NOTE_SAMPLE = 5  /* a loader reads a sample next; its number is in place of the record
                          * (FAN_NOTE_NO_FILE: no more samples); payload: the number of the
                          * dataset. In place of the mount: 1 if the sample is read together with the
                          * one noted before it: all samples of such a batch are noted first, and the
                          * files that are opened then belong to them in this order */
};

/* The source for which a thread waited, in bits 21 to 23 of a stall's payload. Bits 0 to 15 are m
 * and bits 16 to 20 are e of the duration, which is m << e ns. */
enum fan_stall_source {
    FAN_STALL_DISK = 0,   /* a pack on the local disk that was read with pread */
    FAN_STALL_CACHE = 1,  /* the cache: the block came by then, or had needed room */
    FAN_STALL_RANK = 2,   /* another rank, which sent the block */
    FAN_STALL_SHARED = 3, /* the shared file system, read by the daemon or the process itself */
    FAN_STALL_OUTPUT = 4, /* the daemon, for an answer about an output */
    FAN_STALL_SOURCES = 5
};

/* Waits for one source. bins: bin n counts the waits of 2^n ns up to less than 2^(n+1); the last
 * bin counts all longer ones, too. bytes: all stored bytes that came from the source, whether a
 * thread waited for them or not. */
struct fan_stalls {
    uint64_t count;
    uint64_t ns;
    uint64_t bytes;
    uint64_t bins[FAN_STALL_BINS];
};

/* The counts of one thread, or of several that used the lane in turn; never reset. */
struct fan_counters {
    uint64_t opens; /* of regular files, for reading */
    uint64_t reads; /* that returned bytes */
    uint64_t read_bytes;
    uint64_t stats; /* requests for the attributes of an input */
    uint64_t decoded_bytes;
    uint64_t mapped_bytes; /* bytes of packs read from mappings; mapped copies count as reads */
    uint64_t directory_opens;
    uint64_t errors;         /* calls that failed with EIO */
    uint64_t missing;        /* answers that a name does not exist */
    uint64_t refused_writes; /* calls that failed with EROFS */
    uint64_t cache_hits;   /* blocks found in the block cache */
    uint64_t cache_misses; /* blocks asked of the daemon */
    uint64_t remote_bytes; /* stored bytes copied out of the block cache */
    uint64_t shared_reads; /* reads of packs in place, including those after a remote read failed */
    uint64_t shared_bytes;
    uint64_t remote_opens; /* of files that were not on the local disk */
    struct fan_stalls stalls[FAN_STALL_SOURCES];
};

/* One lane. Its owner: pid and tid in the PID namespace pid_space (the inode number of
 * /proc/self/ns/pid, 0: unknown); process: the number of the program in the job on this node, from
 * 1; start_ns: when the owner claimed the lane, since base_ns; first: `head` at that time. head:
 * how many places of the ring were ever taken. */
struct fan_lane {
    uint32_t state; /* an enum fan_lane_state; atomic */
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

/* Offsets of lanes and rings count from the start of the segment. ring_notes: 0 if there are no
 * notes. base_ns: CLOCK_MONOTONIC when the trace began; base_realtime_ns: the time of day then.
 * processes: the last number given to a program, atomic. ended: the counts of lanes whose owners
 * have ended; the daemon moves them there, and adds 1 to `moves` before and after. */
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

/* The start of a saved trace; sections follow, up to the end of the file. checksum: XXH3-64 of the
 * bytes before it. */
struct fan_trace_file_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t layout_id;
    uint64_t reserved[5];
    uint64_t checksum;
};

/* The header of a section. One Zstandard frame of stored_bytes follows, which decompresses to
 * `bytes`. rank: the rank that wrote the section. content_checksum: XXH3-64 of the stored bytes;
 * checksum: XXH3-64 of the fields before it. */
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
    FAN_TRACE_PROCESSES = 2, /* an array of struct fan_traced_process */
    FAN_TRACE_NOTES = 3,     /* runs: each a struct fan_traced_run, and its notes */
    FAN_TRACE_END = 4,       /* the trace of this rank is complete; empty, or JSON in UTF-8 */
    FAN_TRACE_SAMPLES = 5    /* an array of struct fan_traced_sample */
};

/* The counts of a program in one lane since the previous entry: add the entries up. start_ns: when
 * the lane was claimed; end_ns: when the daemon saw that its thread had ended, 0 if it had not;
 * both since base_ns. process 0: the threads that share lane 0. dropped: notes that were
 * overwritten before they were saved. */
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

/* The counts of all programs of a rank at time_ns, since base_ns, and the state of its daemon then.
 * cache_used_bytes: of the block cache. published: finished outputs; placed: those already in the
 * output directory; waiting_bytes: bytes still to be copied there. */
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

/* Notes of one owner of one lane, in order. The runs of one lane, in the order of the file, form
 * one sequence; a noted time also holds for the next run. */
struct fan_traced_run {
    uint32_t lane;
    uint32_t process;
    uint32_t count;
    uint32_t reserved;
};
/* cffi: end */
