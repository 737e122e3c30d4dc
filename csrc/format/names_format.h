/*
 * The names segment: the outputs of directories of which this node knows all names, in the file
 * `names` of the job directory. Clients read it instead of asking the node daemon. Fixed-width,
 * this machine's byte order.
 *
 *     header (FAN_NAMES_HEADER_BYTES) | log (FAN_NAMES_LOG_BYTES)
 *     | units of FAN_NAMES_UNIT bytes: buckets, and names
 *
 * Whatever a reader takes from it counts only if `sequence` was even before and is the same
 * afterwards: who writes makes it odd, changes what it changes, and makes it even again. The daemon
 * may die in between; then, as at its end, no thread owns `owner` any more. Where the segment has
 * no answer, the daemon does (output_format.h).
 *
 * The daemon writes while `closed` is set. While it is not, clients make common changes
 * themselves: whoever has `changer` adds a struct fan_change to the log, which commits it (one
 * compare-and-swap of `log_end`), and then changes the names. The daemon follows the log, up to
 * `log_done`. A client that is killed or stopped with `changer` in its hands ends this for good:
 * the daemon sets FAN_NAMES_LOG_ENDED, follows what was committed, and lets `owner` go.
 *
 * A client that is about to ask for a change adds one to `begun`, before it sends a word of that;
 * the daemon adds one to `done` before it answers. While they differ a change is under way that was
 * perhaps asked for by a process that has been killed, and the daemon, which does that first, is to
 * be asked.
 */
#ifndef FAN_FORMAT_NAMES_FORMAT_H
#define FAN_FORMAT_NAMES_FORMAT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "output_format.h"

enum {
    FAN_NAMES_MAGIC = 0x464e4d32,
    FAN_NAMES_HEADER_BYTES = 16384,
    FAN_NAMES_LOG_BYTES = 512 << 10,
    FAN_NAMES_UNIT = 64,
    FAN_NAMES_FIRST_UNIT = (FAN_NAMES_HEADER_BYTES + FAN_NAMES_LOG_BYTES) / FAN_NAMES_UNIT,
    FAN_NAMES_PATH_MAX = FAN_OUTPUT_PATH_MAX,
    FAN_NAMES_DRAFTS = 512,
    FAN_NAMES_ELSEWHERE_MAX = 64,         /* changes that are being made elsewhere at a time */
    FAN_NAMES_LOG_SPARE_BYTES = 128 << 10 /* of the log, for those */
};

/* Whether clients may change names: for a moment, or for good, they ask instead. */
enum fan_names_closed { FAN_NAMES_LET = 0, FAN_NAMES_HELD = 1, FAN_NAMES_NEVER = 2 };

#define FAN_NAMES_LOG_ENDED (UINT64_C(1) << 63)

/* ENTRY: an output is there, with `attr`. ASK: somebody on this node may be writing it, or about to
 * be. COVERED: a directory, all of whose names are in the segment; OPEN: and in which clients may
 * change them. */
enum fan_name_flags {
    FAN_NAME_ENTRY = 1,
    FAN_NAME_ASK = 2,
    FAN_NAME_COVERED = 4,
    FAN_NAME_OPEN = 8
};

/* One path. Others are referred to by the number of their first unit, 0 being none. next: in the
 * same bucket; first, last: children; before, after: children of the same directory. children,
 * asked: how many there are, and how many of them have ASK; listing_bytes: what those with ENTRY
 * take in a listing; generation: a new one whenever one of these changes. changed_ns: when the
 * names in it changed; 0: not after the times in `attr`. Behind it lies the path, padded with NUL
 * to a multiple of 8, and then the target of a link, padded as well. */
struct fan_name {
    uint64_t hash;
    uint64_t next;
    uint64_t parent;
    uint64_t first;
    uint64_t last;
    uint64_t before;
    uint64_t after;
    uint64_t generation;
    uint64_t children;
    uint64_t asked;
    uint64_t listing_bytes;
    int64_t changed_ns;
    uint32_t mount;
    uint32_t flags; /* fan_name_flags */
    uint32_t path_bytes;
    uint32_t target_bytes;
    struct fan_output_attr attr;
};

/* cffi: begin */
/* CREATED: `pid` may make the file of `object`, to be published at `path`. PUBLISHED: it is, with
 * `attr`. MOVED: what was at `path` is at `other`. REMOVED: what was at `path` is gone. MADE: a
 * directory is at `path`, with `attr`. ALTERED: what is at `path` has `attr`; object: 1 where a
 * directory was given a time, else 0. ELSEWHERE is added to one that a program of this rank had
 * another rank make, which keeps the names; of PUBLISHED the path is that of CREATED then. */
enum fan_change_kind {
    FAN_CHANGE_CREATED = 1,
    FAN_CHANGE_PUBLISHED = 2,
    FAN_CHANGE_MOVED = 3,
    FAN_CHANGE_REMOVED = 4,
    FAN_CHANGE_MADE = 5,
    FAN_CHANGE_ALTERED = 6,
    FAN_CHANGE_ELSEWHERE = 0x100
};

/* One change that a client made, followed by path and other, padded with NUL to a multiple of 8.
 * bytes: of all of it. rank: of the client, and pid: as its daemon sees it. gone: the object that
 * has no name any more, or 0. when_ns: what is noted as the time of the change. */
struct fan_change {
    uint32_t bytes;
    uint16_t kind;
    uint16_t mount;
    uint32_t pid;
    uint32_t path_bytes;
    uint32_t other_bytes;
    uint32_t rank;
    uint64_t object;
    uint64_t gone;
    int64_t when_ns;
    struct fan_output_attr attr;
};
/* cffi: end */

/* An object that a client is writing, at the name `unit`, which has it as attr.object; or, with
 * ELSEWHERE, at one that rank `unit` keeps. `writer` alone may publish it there: its process id,
 * and from bit 32 on its rank. object: 0 where there is none. */
struct fan_names_draft {
    uint64_t object;
    uint64_t unit;
    uint64_t writer;
};

#define FAN_NAMES_DRAFT_ELSEWHERE (UINT64_C(1) << 63)

enum {
    FAN_NAMES_CLASSES = (sizeof(struct fan_name) + 2 * FAN_NAMES_PATH_MAX) / FAN_NAMES_UNIT + 2
};

/* owner: locked by the daemon's thread; frozen: names are moved as a whole, ask the daemon.
 * buckets: the unit at which they begin, bucket_count (a power of two) numbers of names. units: up
 * to here there is room on the disk, up to `used` it is taken. free: for each number of units, the
 * first free run of that many, chained by the words `hash`.
 *
 * elsewhere_begun, elsewhere_done: how many changes clients had other ranks make, and how many of
 * these have come to an end, and are in the log. changer: the thread that changes something. awake:
 * the daemon will look at the log soon; else who adds to it writes to the pipe `changes` of the job
 * directory. pid_space: of the daemon. moves_begun, moves_done: how many real directories behind
 * those of outputs clients of this node began, and ended, to move or remove; one that is killed
 * never ends. */
struct fan_names_header {
    uint32_t magic;
    uint32_t rank;
    uint64_t world_size;
    uint64_t segment_bytes; /* of the file; most of it takes no room */
    uint64_t sequence;
    uint64_t frozen;
    uint64_t units;
    uint64_t used;
    uint64_t count;
    uint64_t generation;
    uint64_t buckets;
    uint64_t bucket_count;
    uint64_t free[FAN_NAMES_CLASSES];
    uint64_t done;
    uint64_t closed; /* fan_names_closed */
    uint64_t log_done;
    uint64_t last_object;
    uint64_t pid_space;
    pthread_mutex_t owner;                       /* robust, shared between processes */
    uint64_t elsewhere_done;
    uint64_t begun __attribute__((aligned(64))); /* the clients' */
    uint64_t log_end;
    uint32_t changer;
    uint32_t awake;
    uint64_t elsewhere_begun; /* under `changer` */
    uint64_t moves_begun, moves_done;
    struct fan_names_draft drafts[FAN_NAMES_DRAFTS];
};

_Static_assert(sizeof(struct fan_names_header) <= FAN_NAMES_HEADER_BYTES, "the header has no room");

#endif
