/*
 * The names segment: the outputs of directories of which this node knows all names, in the file
 * `names` of the job directory. The node daemon alone writes it, clients read it instead of asking.
 * Fixed-width, this machine's byte order.
 *
 *     header (FAN_NAMES_HEADER_BYTES) | units of FAN_NAMES_UNIT bytes: buckets, and names
 *
 * Whatever a reader takes from it counts only if `sequence` was even before and is the same
 * afterwards: the daemon makes it odd, changes what it changes, and makes it even again. It may die
 * in between; then, as at its end, no thread owns `owner` any more. Where the segment has no
 * answer, the daemon does (output_format.h).
 *
 * A client that is about to ask for a change adds one to `begun`, before it sends a word of that;
 * the daemon adds one to `done` before it answers. While they differ a change is under way that was
 * perhaps asked for by a process that has been killed, and the daemon, which does that first, is to
 * be asked.
 */
#ifndef FAN_FORMAT_NAMES_FORMAT_H
#define FAN_FORMAT_NAMES_FORMAT_H

#include <pthread.h>
#include <stdint.h>

#include "output_format.h"

enum {
    FAN_NAMES_MAGIC = 0x464e4d31,
    FAN_NAMES_HEADER_BYTES = 4096,
    FAN_NAMES_UNIT = 64,
    FAN_NAMES_PATH_MAX = FAN_OUTPUT_PATH_MAX
};

/* ENTRY: an output is there, with `attr`. ASK: somebody on this node may be writing it, or about to
 * be. COVERED: a directory, all of whose names are in the segment. */
enum fan_name_flags { FAN_NAME_ENTRY = 1, FAN_NAME_ASK = 2, FAN_NAME_COVERED = 4 };

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

/* owner: locked by the thread that writes; frozen: names are moved as a whole, ask the daemon.
 * buckets: the unit at which they begin, bucket_count (a power of two) numbers of names. */
struct fan_names_header {
    uint32_t magic;
    uint32_t rank;
    uint64_t segment_bytes; /* of the file; most of it takes no room */
    uint64_t sequence;
    uint64_t frozen;
    uint64_t units; /* up to here there is room on the disk */
    uint64_t buckets;
    uint64_t bucket_count;
    uint64_t done;
    pthread_mutex_t owner;                       /* robust, shared between processes */
    uint64_t begun __attribute__((aligned(64))); /* the clients' */
};

#endif
