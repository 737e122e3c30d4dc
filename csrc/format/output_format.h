/*
 * Requests of a client to the node daemon about outputs whose names or content other ranks keep,
 * and the answers. The client makes a connection to `outputs` in the job directory for each
 * request. Fixed-width fields in this machine's byte order; texts do not end with a NUL.
 *
 *     request | path | other        answer | text
 *
 * Paths are relative to the mount `view`, as the program gave them: not in normal form.
 */
#pragma once

#include <stdint.h>

/* cffi: begin */
enum { FAN_OUTPUT_MAGIC = 0x464a4f31, FAN_OUTPUT_PATH_MAX = 4096 };

/* LOOKUP, LIST: path. OPEN: path, flags (open(2)'s), mode. MKDIR, MKNOD: path, mode. Modes
 * have the umask applied. SYMLINK: path, other (the target). LINK, RENAME: path to other, flags
 * (linkat's, renameat2's). UNLINK, RMDIR: path. CHANGE: path, change and what it names. TRUNCATE:
 * path, size. SETTLE: path, and other if it was renamed: the kernel changed these names while a
 * pointer was made here (fan_outputs.pointers).
 */
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
    FAN_OUTPUT_SETTLE = 13
};

/* NOFOLLOW: do not follow the last component if it is a link. RENAME, UNLINK, RMDIR, MKDIR, MKNOD
 * and SYMLINK never follow a last component that is a link. */
enum fan_output_how { FAN_OUTPUT_NOFOLLOW = 1 };

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
    uint16_t how;   /* enum fan_output_how */
    uint32_t flags; /* the flags of the system call */
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t change; /* enum fan_output_change */
    uint32_t path_bytes;
    uint32_t other_bytes;
    int64_t size;
    int64_t atime_ns;
    int64_t mtime_ns;
};

/* mode: includes the file type. */
struct fan_output_attr {
    uint64_t ino;
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

/* DONE: text is empty; for LIST it is the list. HERE: the path is an output with `attr`; text is
 * its path in the mount in normal form, or a link's target. ELSEWHERE: a symbolic link or ".."
 * leads out of the outputs; text is the absolute path at which to continue.
 *
 * For OPEN, and for MKNOD of a socket, text is the path of a real file. TREE: in this rank's output
 * tree; make the call on that path. MADE: a new file, which comes open, as a descriptor. COPY: a
 * copy, for reading, of another rank's file with `attr`. DIRECTORY: the directory in the output
 * tree that stands for one whose names are kept elsewhere. */
enum fan_output_where {
    FAN_OUTPUT_DONE = 0,
    FAN_OUTPUT_HERE = 1,
    FAN_OUTPUT_ELSEWHERE = 2,
    FAN_OUTPUT_TREE = 3,
    FAN_OUTPUT_COPY = 4,
    FAN_OUTPUT_DIRECTORY = 5,
    FAN_OUTPUT_MADE = 6
};

/* error: 0 or an errno; if it is not 0, no other field is used except text_bytes (0). fd: set by
 * the receiver: the descriptor that came with the answer, or -1. */
struct fan_output_answer {
    uint32_t magic;
    uint32_t error;
    uint32_t where;
    int32_t fd;
    uint64_t text_bytes;
    struct fan_output_attr attr;
};

/* The text of a LIST answer consists of these: one for each output in the directory, followed by
 * its name, with NULs up to a multiple of 8 bytes. type: DT_REG and so on. The list has neither "."
 * nor "..", and no inputs. */
struct fan_output_name {
    uint64_t ino;
    uint32_t type;
    uint32_t name_bytes;
};
/* cffi: end */
