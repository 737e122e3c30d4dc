/*
 * The job segment: the node daemon's information for its clients, in one file that both map.
 *
 * The daemon writes all of it once, before the first client starts; afterwards only the fields
 * marked atomic change. Offsets count from the start of the segment; a string is its offset and
 * length, not terminated by NUL.
 *
 *     header | mounts | neighbours | pack places | bitmaps | strings | outputs | trace
 * (trace_format.h)
 */
#pragma once

#include <stdint.h>

#define FAN_JOB_MAGIC "FANJOBS\n"

/* cffi: begin */
enum { FAN_JOB_VERSION = 8, FAN_JOB_LAYOUT_ID = 0x464a0008, FAN_JOB_MOUNTS_MAX = 16 };

enum fan_job_state {
    FAN_JOB_STARTING = 0,
    FAN_JOB_SERVING = 1,
    FAN_JOB_ENDED = 2
};

enum fan_mount_flags { FAN_MOUNT_PREFIX_MADE = 1, FAN_MOUNT_CROWDED = 2 };

enum fan_place_state {
    FAN_PLACE_ABSENT = 0,
    FAN_PLACE_STAGED = 1,
    FAN_PLACE_IN_PLACE = 2,
    FAN_PLACE_REMOTE = 3,
    FAN_PLACE_PARTIAL = 4
};

enum fan_place_flags {
    FAN_PLACE_HAS_DAMAGE = 1,
    FAN_PLACE_HAS_UNCHECKED = 2,
    FAN_PLACE_AT_NEIGHBOUR = 4
};

struct fan_shm_string {
    uint64_t offset;
    uint64_t bytes;
};

/* flags are atomic; the state stays the same during the job. A client maps a staged pack, reads a
 * pack in place with pread, and asks the node daemon for the blocks of a remote pack; if the daemon
 * cannot get them, the client reads the pack in place. It also maps a partial pack and reads the
 * resident records there (resident_format.h); other records of the pack are remote.
 *
 * AT_NEIGHBOUR: the pack is not staged here, but a neighbour has it staged whole. */
struct fan_place {
    uint32_t state;
    uint32_t flags;
};

/* prefix: canonical, absolute, no slash at the end. alias: another spelling of it (through a
 * symbolic link), or empty. skeleton: the directory below which directories are made real; the
 * prefix itself if FanStore made it. outputs: the directory with this rank's outputs in the mount,
 * each at its path in the mount. places: pack_count entries. damage, unchecked, touched: bitmaps of
 * record_count bits, atomic. unchecked: files of whole packs that an earlier job left; until the
 * node daemon has checked a file, clients ask the daemon for it. The daemon sets these bits from
 * the flags of the places. touched: the directories in which any rank ever made an output.
 *
 * CROWDED: the node's packs may not fit into its memory. The kernel is to read only what is asked
 * for, and not read_ahead_kb around it. */
struct fan_mount {
    struct fan_shm_string prefix;
    struct fan_shm_string alias;
    struct fan_shm_string skeleton;
    struct fan_shm_string index_path;
    struct fan_shm_string staged_dir;
    struct fan_shm_string dataset_dir;
    struct fan_shm_string outputs;
    uint64_t places_offset;
    uint64_t damage_offset;
    uint64_t unchecked_offset;
    uint64_t touched_offset;
    uint64_t record_count;
    uint64_t device;
    uint32_t pack_count;
    uint32_t flags;
};

/* neighbours: the paths of the job segments of other ranks that share this node, its file systems
 * and the user, as struct fan_shm_string. A client maps such a segment and then reads what that
 * rank has staged like its own packs, by that segment's places and bits. The segment may not be
 * there yet, or not any more. processes: how many programs have loaded the preload library and
 * found the segment; atomic. */
struct fan_job_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t layout_id;
    uint64_t segment_bytes;
    uint64_t mounts_offset;
    uint64_t trace_offset;
    uint64_t outputs_offset;
    uint64_t neighbours_offset;
    uint32_t neighbour_count;
    uint32_t mount_count;
    uint32_t state;
    uint32_t daemon_pid;
    uint32_t rank;
    uint32_t world_size;
    uint32_t processes;
    uint32_t reserved;
};
/* A file that a process has open for writing. process: its number; FAN_WRITER_KILLED: it was killed
 * while it had the file open; 0: the entry is free. silent: the process does not report when it
 * closes the file (csrc/trap). */
enum { FAN_WRITERS = 4096, FAN_WRITER_KILLED = 0x7fffffff };
struct fan_writer {
    uint32_t process;
    uint32_t silent;
    uint64_t inode;
};

/* The outputs of this node, which lie in ordinary directories (fan_mount.outputs); all fields are
 * atomic. changes: the number of changes there. moves_begun, moves_done: the numbers of renames; a
 * walk over the directories has seen each file if both numbers are the same before and after it.
 * pointers: counted up before and after each pointer to another rank is made here, so it is odd
 * meanwhile. links: there may be symbolic links. visited: other ranks have looked at names that
 * this one keeps. killed: the number of entries of killed writers. namespace_inode: of the PID
 * namespace in which `process` counts. */
struct fan_outputs {
    uint64_t changes;
    uint64_t moves_begun;
    uint64_t moves_done;
    uint64_t pointers;
    uint64_t namespace_inode;
    uint32_t links;
    uint32_t visited;
    uint32_t killed;
    uint32_t reserved;
    struct fan_writer writers[FAN_WRITERS];
};
/* cffi: end */
