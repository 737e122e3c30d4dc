/*
 * Open files, whatever descriptors they have (filetable.h).
 *
 * A `fan_slot` is the open file description: its offset is shared by every descriptor and every
 * process that inherited it, so slots lie in a memory file (the arena) that fork and exec hand on.
 * A `fan_file` is this process's view of a slot: pointers that mean nothing elsewhere.
 *
 * Nothing here locks. A killed process takes its arena with it; a slot it shared stays taken until
 * the arena's last process ends.
 */
#ifndef FAN_CLIENT_FILE_H
#define FAN_CLIENT_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../job/job.h"

enum fan_file_kind {
    FAN_FILE_FREE = 0,
    FAN_FILE_REGULAR,   /* placeholder descriptor, content from the pack */
    FAN_FILE_DIRECTORY, /* a directory of the mount: a real descriptor where it could be made */
    FAN_FILE_PATH,      /* O_PATH of any record */
    FAN_FILE_COPY,      /* an input whose descriptor is the kernel's own, of a real copy */
    FAN_FILE_NEAR,      /* a real directory above a mount prefix */
    FAN_FILE_OUTPUT,    /* an output: the descriptor is the kernel's own, of the real file or
                           directory; or, with an id, of a copy of another rank's file */
    FAN_FILE_OUTDIR,    /* a directory of another rank: a real descriptor of what stands for it */
    FAN_FILE_ZOMBIE,    /* closed here, but others still use its slot */
};

struct fan_slot {
    _Atomic int64_t offset; /* FAN_FILE_REGULAR, negative: the kernel keeps it (moved.h) */
    atomic_uint refs;       /* descriptors of all processes */
    atomic_uint status;     /* O_ACCMODE and the status flags that F_SETFL changes */
    uint32_t view;
    uint32_t kind;
    uint64_t id;                /* record, or object; for FAN_FILE_NEAR the length of the path */
    uint64_t writable;          /* FAN_FILE_OUTPUT: it may still be written through this */
    uint64_t inode;             /* FAN_FILE_OUTPUT */
} __attribute__((aligned(64))); /* none lies in two pages (arena.c) */

/* The last decoded block of an open compressed file (decode.h). */
struct fan_decoded {
    atomic_flag busy; /* held by the thread that uses `bytes`; others decode for themselves */
    char *bytes;
    uint64_t capacity;
    _Atomic uint64_t block; /* number of the block held + 1; 0: none. Others may look, as a hint */
    unsigned generation;    /* of the file whose block it is */
};

struct fan_entries;

struct fan_file {
    struct fan_slot *slot;
    struct fan_view *view;
    struct fan_dataset *dataset;
    const struct fan_record *record; /* NULL of FAN_FILE_NEAR and of outputs */
    const char *data;                /* stored bytes in the mapped pack, or NULL */
    uint64_t id;
    atomic_uint refs;       /* descriptors of this process */
    atomic_uint generation; /* changes with each open and close: a read that raced says so */
    atomic_uint kind;       /* a sweep looks at files that others are filling */
    bool writable;          /* as its slot's, while this process answers for it */
    uint32_t writer;        /* of a writable output in the tree: its entry there + 1 (writers.h) */
    uint32_t number;        /* own slot's place in the arena */
    atomic_uint next;       /* free list: number + 1; read by those who then lose the race for it */
    atomic_uint waiting; /* reads that may take long: the file is not given to another meanwhile */
    _Atomic uint64_t registered; /* as remote.c told the daemon; 0: it did not */
    atomic_int moved; /* holder of the real description (moved.h), once this process needed it */
    struct fan_decoded decoded;
    struct fan_entries *entries; /* of getdents (dirstream.h), or NULL; decoded.busy guards them */
} __attribute__((aligned(64)));  /* no two files share a cache line */

/* Functions of higher rooms that are called when an open file is closed; this file does not include
 * those rooms. Called on cold branches only, and set before the first file is made. */
struct fan_file_hooks {
    void (*let_go)(const struct fan_file *file); /* the last descriptor of a writable output goes */
    void (*disown)(struct fan_file *file);       /* a writable output: a vfork child has it alone */
    void (*remote_close)(struct fan_file *file); /* the last descriptor goes; `registered` is set */
    void (*entries_end)(struct fan_entries *entries); /* frees a snapshot */
};
extern const struct fan_file_hooks *fan_file_hooks;

/* Whether files of a kind are records of the dataset. */
static inline bool fan_file_has_record(uint32_t kind)
{
    return kind == FAN_FILE_REGULAR || kind == FAN_FILE_DIRECTORY || kind == FAN_FILE_PATH ||
           kind == FAN_FILE_COPY;
}

/* Whether a file is a copy of another rank's output. */
static inline bool fan_is_copied(const struct fan_file *file)
{
    return file->kind == FAN_FILE_OUTPUT && file->id != 0;
}

/* Makes a file with one reference, for `fan_file_install`. NULL if there are too many. */
struct fan_file *fan_file_new(struct fan_view *view, uint64_t id, enum fan_file_kind kind,
                              unsigned status);

/* Makes a file for a slot that another process made. That process has counted this reference in
 * slot->refs. Returns NULL if the slot is invalid or there are too many files. */
struct fan_file *fan_file_adopt(struct fan_slot *slot);

/* Drops one reference. Dropping the last reference to a writable output also calls
 * fan_output_let_go (outputs.h). */
void fan_file_put(struct fan_file *file);

/* Frees the buffer. Call it only when no thread reads the file any more. */
void fan_decoded_fini(struct fan_decoded *decoded);

/* Drops the snapshot of a directory, if there is one. The caller holds decoded.busy. */
void fan_file_drop_entries(struct fan_file *file);

/* Frees the closed files whose other users have gone by now. */
void fan_file_sweep(void);

#endif
