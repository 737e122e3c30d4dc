/*
 * The job in one client process: the segment that the daemon wrote, and a view of each mounted
 * dataset. The preload library's constructor attaches it; the index and packs of a dataset are
 * mapped when they are first needed. There is no lock: if several threads map the same thing at
 * once, one publishes its mapping and the others drop theirs. Never detached: mappings end with the
 * process.
 */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../common/index.h"
#include "../../format/shm_format.h"
#include "lane.h"

/* A string of the segment with a NUL behind it. */
struct fan_text {
    const char *text;
    size_t bytes;
};

/* A pack that this process has opened (packs.h). base: the mapping of the staged copy; sparse: the
 * mapping of the partial pack; fds: descriptors of the other copies, parked when they are first
 * read with pread. */
struct fan_pack_view {
    _Atomic(const char *) base;
    _Atomic(const char *) sparse;
    atomic_int fds[2]; /* for each fan_pack_copy: descriptor + 1; 0: not open */
};

/* The mapped index of a dataset, and the places of its packs. resident: the mapping of the file
 * that says which records of partial packs are resident, or NULL (packs.h). */
struct fan_dataset {
    struct fan_index index;
    _Atomic(const char *) resident;
    bool all_searchable;
    bool all_readable;
    bool has_originals; /* files that stand for packs (content/original.h) */
    struct fan_pack_view packs[];
};

/* One mounted dataset. number: its index among the job's mounts. */
struct fan_view {
    struct fan_text prefix;
    struct fan_text alias;
    struct fan_text skeleton;
    struct fan_text index_path;
    struct fan_text staged_dir;
    struct fan_text dataset_dir;
    struct fan_text outputs; /* empty in a job of several ranks */
    bool prefix_made;
    bool crowded;
    dev_t device;
    uint64_t record_count;
    uint32_t pack_count;
    uint32_t number;
    struct fan_place *places;
    _Atomic uint64_t *damage;
    _Atomic uint64_t *unchecked;
    _Atomic uint64_t *touched;
    _Atomic(struct fan_dataset *) dataset;
};

/* Returns whether a dataset is in a bucket, which only the node daemon can read. */
static inline bool fan_view_is_far(const struct fan_view *view)
{
    return view->dataset_dir.text[0] != '/';
}

/* Small, so that a program's start writes to one page only. */
struct fan_job {
    unsigned view_count; /* 0: there is no job, and all calls pass through */
    uint32_t world_size;
    struct fan_text directory;
    const struct fan_job_header *header;
    struct fan_outputs *outputs; /* NULL in a job of several ranks */
    const char *variable; /* "FANSTORE_JOB_DIR=" and the directory */
    const char *preload;  /* "LD_PRELOAD=" and the library; NULL: not known */
    char texts[2048];     /* the texts of these two and of the views, if they fit */
    struct fan_view views[FAN_JOB_MOUNTS_MAX];
};

extern struct fan_job fan_job;

#define FAN_JOB_ENV "FANSTORE_JOB_DIR"
#define FAN_PRELOAD_ENV "LD_PRELOAD"

/* Attaches to the job in `directory` (FANSTORE_JOB_DIR). `library`: the path of the preload
 * library, or NULL. Returns 0, or -errno and then there is no job. */
int fan_job_attach(const char *directory, const char *library);

/* Returns 0 if a program that starts now could attach. If the job's segment or this library was
 * removed while the job runs, prints a line on stderr and returns -EIO. Does not allocate or take a
 * lock. */
int fan_job_joinable(void);

enum { FAN_TEXT_MAX = 4096 };

/* Copies a string of a segment of `segment_bytes` bytes to `*space`, with a NUL, and moves `*space`
 * behind it. Returns -EINVAL if it is not inside the segment or has FAN_TEXT_MAX bytes or more. */
int fan_copy_text(const char *segment, uint64_t segment_bytes, struct fan_shm_string from,
                  char **space, struct fan_text *to);

/* Makes views of the mounts of a job segment of `bytes` bytes that was checked
 * (fan_is_job_segment). Writes their strings to `space`, which has room for them
 * (fan_views_strings_bytes). Returns 0 or -EINVAL. */
int fan_views_attach(char *segment, uint64_t bytes, char **space, struct fan_view *views);

/* Returns the bytes that the strings of the mounts need; too many if one is no string. */
size_t fan_views_strings_bytes(const struct fan_mount *mounts, unsigned count);

/* Maps the whole file `fd`, shared, and closes `fd`. Returns the mapping and sets `bytes` to its
 * size; or -errno, -EINVAL if the file is empty. A negative `fd` is returned unchanged. */
long fan_map_whole(int fd, int prot, uint64_t *bytes);

/* Returns the dataset of a view, which is mapped on first use; NULL if its index cannot be used
 * (-EIO). */
struct fan_dataset *fan_view_map(struct fan_view *view);

static inline struct fan_dataset *fan_view_dataset(struct fan_view *view)
{
    struct fan_dataset *dataset = atomic_load_explicit(&view->dataset, memory_order_acquire);
    return __builtin_expect(dataset != NULL, 1) ? dataset : fan_view_map(view);
}

/* Returns the place of a pack, a fan_place_state. */
static inline uint32_t fan_view_place(const struct fan_view *view, uint32_t pack)
{
    return __atomic_load_n(&view->places[pack].state, __ATOMIC_ACQUIRE);
}

/* Why clients may not read a file's bytes from its pack: the daemon found the file damaged, or has
 * not checked it yet. */
enum fan_bar { FAN_NOT_BARRED, FAN_DAMAGED, FAN_UNCHECKED };

static inline bool fan_view_bit(const _Atomic uint64_t *bits, uint64_t id)
{
    return (atomic_load_explicit(&bits[id / 64], memory_order_acquire) >> (id % 64) & 1) != 0;
}

static inline enum fan_bar fan_view_bar(const struct fan_view *view, uint32_t pack, uint64_t id)
{
    uint32_t flags = __atomic_load_n(&view->places[pack].flags, __ATOMIC_ACQUIRE);
    if (__builtin_expect(flags == 0, 1))
        return FAN_NOT_BARRED;
    if ((flags & FAN_PLACE_HAS_DAMAGE) != 0 && fan_view_bit(view->damage, id))
        return FAN_DAMAGED;
    bool unchecked = (flags & FAN_PLACE_HAS_UNCHECKED) != 0 && fan_view_bit(view->unchecked, id);
    return unchecked ? FAN_UNCHECKED : FAN_NOT_BARRED;
}

/* Returns whether any rank ever made an output in directory `id`. Only then does the client ask the
 * node daemon about names that are missing there. The daemon sets the bit before the call that
 * creates the output returns. */
static inline bool fan_view_touched(const struct fan_view *view, uint64_t id)
{
    return fan_view_bit(view->touched, id);
}

long fan_count_eio(void) __attribute__((cold));

/* Returns the result of a call on an input, and counts an EIO for the report. For calls that return
 * bytes, use fan_content_counted. */
static inline long fan_count_error(long rc)
{
    return __builtin_expect(rc == -EIO, 0) ? fan_count_eio() : rc;
}
