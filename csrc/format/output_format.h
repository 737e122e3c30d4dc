/*
 * What a client asks of the node daemon about outputs, and its answers: over a connection of its
 * own to `outputs` in the job directory, one request and one answer each. Fixed-width, this
 * machine's byte order; texts are not terminated.
 *
 *     request | path | other | objects (uint64_t each)        answer | text
 *
 * Paths are relative to the mount `view`, as far from normal form as a program wrote them.
 */
#ifndef FAN_FORMAT_OUTPUT_FORMAT_H
#define FAN_FORMAT_OUTPUT_FORMAT_H

#include <stdint.h>

/* cffi: begin */
enum {
    FAN_OUTPUT_MAGIC = 0x464a4f31,
    FAN_OUTPUT_PATH_MAX = 4096,
    FAN_OUTPUT_OBJECTS_MAX = 512,
    FAN_OBJECT_LANES = 8,         /* folders in which new objects are made in turn */
    FAN_OBJECT_FOLDER_SHIFT = 10, /* how many numbers these folders have together, in bits */
    FAN_OBJECT_RANK_SHIFT = 40    /* above these bits of its number: the rank where it lies */
};

/* LOOKUP, LIST: path. OPEN: path, flags (open(2)'s), mode. MKDIR, MKNOD: path, mode (umask
 * applied). SYMLINK: path, other (the target). LINK, RENAME: path to other, flags (linkat's,
 * renameat2's). UNLINK, RMDIR: path. CHANGE: path, change and what it names. TRUNCATE: path, size.
 *
 * The rest name objects. SETTLE: this process has closed its last writable descriptor of them.
 * HOLD: it has some (after fork, exec, or an exec that failed). HAND_ON: about to exec, they go on
 * to the new program; LEAVE: about to exec or exit normally, what it has of them ends with that
 * (without objects: all it has). ABANDON: an open that the daemon allowed failed. REFRESH: their
 * attributes were changed through a descriptor. NAME: the name of the first one. */
enum fan_output_op {
    FAN_OUTPUT_LOOKUP = 1,
    FAN_OUTPUT_LIST = 2,
    FAN_OUTPUT_OPEN = 3,
    FAN_OUTPUT_MKDIR = 4,
    FAN_OUTPUT_MKNOD = 5,
    FAN_OUTPUT_SYMLINK = 6,
    FAN_OUTPUT_LINK = 7,
    FAN_OUTPUT_UNLINK = 8,
    FAN_OUTPUT_RMDIR = 9,
    FAN_OUTPUT_RENAME = 10,
    FAN_OUTPUT_CHANGE = 11,
    FAN_OUTPUT_TRUNCATE = 12,
    FAN_OUTPUT_SETTLE = 20,
    FAN_OUTPUT_HOLD = 21,
    FAN_OUTPUT_HAND_ON = 22,
    FAN_OUTPUT_LEAVE = 23,
    FAN_OUTPUT_ABANDON = 24,
    FAN_OUTPUT_REFRESH = 25,
    FAN_OUTPUT_NAME = 26
};

/* NOFOLLOW: the last component is not followed when it is a link; of RENAME, UNLINK, RMDIR, MKDIR,
 * MKNOD, SYMLINK it never is. ANNOUNCED: a change that was counted in the names segment. */
enum fan_output_how { FAN_OUTPUT_NOFOLLOW = 1, FAN_OUTPUT_ANNOUNCED = 2 };

enum fan_output_change {
    FAN_OUTPUT_MODE = 1,
    FAN_OUTPUT_UID = 2,
    FAN_OUTPUT_GID = 4,
    FAN_OUTPUT_ATIME = 8,
    FAN_OUTPUT_MTIME = 16
};

struct fan_output_request {
    uint32_t magic;
    uint16_t op;
    uint16_t view;
    uint16_t other_view;
    uint16_t how;    /* fan_output_how */
    uint32_t flags;  /* those of the system call */
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t change; /* fan_output_change */
    uint32_t path_bytes;
    uint32_t other_bytes;
    uint32_t object_count;
    uint32_t behalf; /* the process that this one asks for; 0: itself */
    int64_t size;
    int64_t atime_ns;
    int64_t mtime_ns;
};

/* ino: 0 where there is no file to speak of. mode: with the type. object: 0 but for files. */
struct fan_output_attr {
    uint64_t ino;
    uint64_t object;
    uint64_t size;
    uint64_t blocks;
    int64_t atime_ns;
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t nlink;
};

/* DONE: text is empty; or LIST's. HERE: an output, attr; text is its path in the mount in normal
 * form, or a link's target. ELSEWHERE: a symbolic link or ".." leads out of the outputs; text is
 * the absolute path to go on with.
 *
 * Of OPEN, text is the path of a real file to be opened with the flags of the program, but for
 * O_NOFOLLOW. CREATE: with O_CREAT and O_EXCL and without O_TRUNC, in `attr.mode`. EXISTING:
 * without O_CREAT, O_EXCL and O_TRUNC; when that says ENOENT, it was replaced meanwhile: ask again.
 * CUT: as EXISTING, but with O_TRUNC. DIRECTORY: text is its path in the mount.
 *
 * Of NAME: HERE, text is the absolute path by which this process may open it; OPEN_YET, others are
 * writing it, and its path would not lead this process there.
 *
 * Of SETTLE: SETTLED, nobody can write to them any more and all ranks see them; OPEN_YET, else. */
enum fan_output_where {
    FAN_OUTPUT_DONE = 0,
    FAN_OUTPUT_HERE = 1,
    FAN_OUTPUT_ELSEWHERE = 2,
    FAN_OUTPUT_CREATE = 3,
    FAN_OUTPUT_EXISTING = 4,
    FAN_OUTPUT_CUT = 5,
    FAN_OUTPUT_DIRECTORY = 6,
    FAN_OUTPUT_SETTLED = 7,
    FAN_OUTPUT_OPEN_YET = 8
};

/* error: 0 or an errno; nothing but text_bytes (0) counts then. */
struct fan_output_answer {
    uint32_t magic;
    uint32_t error;
    uint32_t where;
    uint32_t reserved;
    uint64_t text_bytes;
    struct fan_output_attr attr;
};

/* LIST's text: one of these for each output in the directory, its name behind it, padded with NUL
 * to a multiple of 8. type: DT_REG and so on. Neither "." nor "..", and no inputs. */
struct fan_output_name {
    uint64_t ino;
    uint32_t type;
    uint32_t name_bytes;
};
/* cffi: end */

#endif
