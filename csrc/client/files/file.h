/*
 * Open files, whatever descriptors they have (filetable.h).
 *
 * A `fan_slot` is the open file description: its offset is shared by every descriptor and every
 * process that inherited it, so slots lie in a memory file (the arena) that fork and exec pass on.
 * A `fan_file` is this process's view of a slot, with pointers of this process.
 *
 * No function takes a lock. A killed process takes its arena with it; a slot it shared stays taken
 * until the arena's last process ends.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../job/job.h"

enum fan_file_kind {
    FAN_FILE_FREE = 0,
    FAN_FILE_REGULAR,   /* a placeholder; the content comes from the pack */
    FAN_FILE_DIRECTORY, /* a directory of the mount: a real descriptor if it could be made */
    FAN_FILE_PATH,      /* any record that was opened with O_PATH */
    FAN_FILE_COPY,      /* an input whose descriptor is of a real copy */
    FAN_FILE_NEAR,      /* a real directory above a mount prefix */
    FAN_FILE_OUTPUT,    /* an output, whose descriptor is of the real file or directory */
    FAN_FILE_OUTDIR,    /* a directory of another rank: a real descriptor of its stand-in */
    FAN_FILE_ZOMBIE,    /* closed here, but others still use its slot */
};

struct fan_slot {
    _Atomic int64_t offset; /* for FAN_FILE_REGULAR, negative if the kernel keeps it (moved.h) */
    atomic_uint refs;       /* counts the descriptors of all processes */
    atomic_uint status;     /* O_ACCMODE and the status flags that F_SETFL changes */
    uint32_t view;
    uint32_t kind;
    uint64_t id;                /* record id, or object; for FAN_FILE_NEAR the length of the path */
    uint64_t writable;          /* FAN_FILE_OUTPUT: whether it may still be written through this */
    uint64_t inode;             /* FAN_FILE_OUTPUT: its inode number */
} __attribute__((aligned(64))); /* aligned, so that none is in two pages (arena.c) */

/* The last decoded block of an open compressed file (decode.h). */
struct fan_decoded {
    atomic_flag busy; /* held by a thread that uses `bytes`; other threads decode without it */
    char *bytes;
    uint64_t capacity;
    _Atomic uint64_t block; /* the number of the block in `bytes` + 1; 0: none */
    unsigned generation;    /* of the file to which the block belongs */
};

struct fan_entries;

enum { FAN_FILE_ENDS = 4 };

struct fan_file {
    struct fan_slot *slot;
    struct fan_view *view;
    struct fan_dataset *dataset;
    const struct fan_record *record; /* NULL for FAN_FILE_NEAR and for outputs */
    const char *data;                /* stored bytes in the mapped pack, or NULL */
    uint64_t id;
    atomic_uint refs;       /* counts the descriptors of this process */
    atomic_uint generation; /* changes with each open and close, which a concurrent read notices */
    atomic_uint kind;       /* atomic, because a sweep reads it while others fill the file */
    bool writable;          /* like the slot's, while this process is responsible for it */
    uint32_t writer;        /* for a writable output in the tree: its entry there + 1 (writers.h) */
    uint32_t number;        /* the number of its own slot in the arena */
    atomic_uint next;       /* in the free list: number + 1; a losing thread may read it */
    atomic_uint waiting;    /* reads that may take long: the struct is not reused meanwhile */
    _Atomic uint64_t registered; /* what remote.c told the daemon; 0: nothing */
    _Atomic uint64_t ends[FAN_FILE_ENDS]; /* where its last reads ended (remote.c) */
    atomic_int moved; /* holder of the real description (moved.h), if this process needed it */
    struct fan_decoded decoded;
    struct fan_entries *entries; /* the snapshot for getdents (dirstream.h), or NULL */
} __attribute__((aligned(64)));  /* aligned, so that no two files share a cache line */

/* Functions of higher rooms to call when an open file is closed, because this file must not include
 * those rooms. Set before the first file is made; called only on cold branches. */
struct fan_file_hooks {
    void (*let_go)(const struct fan_file *file);      /* a writable output's last close */
    void (*disown)(struct fan_file *file);            /* only a vfork child has this output now */
    void (*remote_close)(struct fan_file *file);      /* closed here, with `registered` set */
    void (*entries_end)(struct fan_entries *entries); /* frees a snapshot */
};
extern const struct fan_file_hooks *fan_file_hooks;

/* Returns whether files of a kind are records of the dataset. */
static inline bool fan_file_has_record(uint32_t kind)
{
    return kind == FAN_FILE_REGULAR || kind == FAN_FILE_DIRECTORY || kind == FAN_FILE_PATH ||
           kind == FAN_FILE_COPY;
}

/* Returns whether a file is a copy of another rank's output. */
static inline bool fan_is_copied(const struct fan_file *file)
{
    return file->kind == FAN_FILE_OUTPUT && file->id != 0;
}

/* Makes a file with one reference, for `fan_file_install`. Returns NULL if there are too many. */
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

/* Frees closed files whose other users have ended. */
void fan_file_sweep(void);
