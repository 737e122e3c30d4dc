/*
 * The output tree: each file that a program of this rank makes is an ordinary file of the job
 * directory, in
 * `fan_mount.outputs`, at its path in the mount. The kernel keeps its name, attributes, locks and
 * links, and a call on an output is the same call on that path.
 *
 * A directory of the dataset has its counterpart in the tree, and its bit in `touched` once there
 * is an output in it: only then its missing names are looked for there.
 *
 * The target of a symbolic link is a path of the mount, which only the library can follow. In the
 * tree it has FAN_TREE_LINK in front, so that the kernel never follows it to anything.
 *
 * In a job of several ranks a name is kept by the rank that has its directory. What other ranks
 * have is a pointer in the tree, or nothing: those names the daemon is asked about
 * (fanstore/outputs/ranks/trees.py).
 */
#ifndef FAN_CLIENT_OUTPUT_TREE_H
#define FAN_CLIENT_OUTPUT_TREE_H

#include <dirent.h>
#include <sys/stat.h>

#include "walk.h"

#define FAN_TREE_LINK "/proc/.fanstore/" /* nobody can make anything there */
#define FAN_TREE_POINTER "/proc/.fanstore@" /* of a file: before the number of its rank */
enum {
    FAN_TREE_LINK_BYTES = sizeof(FAN_TREE_LINK) - 1,
    FAN_TREE_POINTER_BYTES = sizeof(FAN_TREE_POINTER) - 1
};

/* Modes of directories that stand for one of the dataset, and of another rank; mkdir(2) gives none
 * of them to any other. KNOWN: all ranks look for outputs there, and this one keeps the names. */
enum {
    FAN_TREE_COUNTERPART_MODE = 05700,
    FAN_TREE_KNOWN_MODE = 05711,
    FAN_TREE_STAND_IN_MODE = 04700
};

/* The inode number that all ranks see of a file of this one. Those of inputs are numbered from 2
 * on.
 */
static inline uint64_t fan_tree_inode(uint64_t inode)
{
    return (inode ^ (uint64_t)fan_job.header->rank << 44) | UINT64_C(1) << 62;
}

static inline bool fan_tree_has_ranks(void)
{
    return fan_job.header->world_size > 1;
}

/* Whether there may be symbolic links in the tree. */
static inline bool fan_tree_has_links(void)
{
    return __atomic_load_n(&fan_job.outputs->links, __ATOMIC_ACQUIRE) != 0;
}

/* Whether a path leads through no link, and not up: one call at most. */
bool fan_tree_is_straight(const struct fan_walk *walk, int dirfd, const char *path);

/* Whether a path in the tree is this rank's to look at or to change, with no link to be followed on
 * the way. */
bool fan_tree_is_own(const struct fan_walk *walk, int dirfd, const char *path);

/* Goes on from an input directory, in which there is no input `name`, to that and all of the walk's
 * rest behind it. slash: one follows the name. Ends at FAN_TREE, at another path of the mount, or
 * as fan_walk_beyond. */
enum fan_walk_end fan_tree_walk(struct fan_walk *walk, const char *name, bool slash);

/* Of a FAN_TREE target, makes one that the daemon is asked about: FAN_BEYOND. 0 or -errno. */
int fan_tree_ask(struct fan_target *target);

/* Ends a walk at a path of the tree. */
bool fan_tree_found(const struct fan_walk *walk, int dirfd, const char *path);

/* The path of the counterpart of an input directory, which is made: 0 or -errno. */
int fan_tree_counterpart(struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                         char *path, size_t capacity);

/* The same of the counterpart whose path in the tree is `path` already. */
int fan_tree_make_counterpart(struct fan_view *view, uint64_t id, char *path);

/* How many bytes of a path in the tree stand for the mount's root. */
size_t fan_tree_top_bytes(const struct fan_view *view, const char *path);

/* The path of the counterpart of an input directory, made or not; by a descriptor of the tree where
 * the plain path does not fit. Its length or -errno. */
int64_t fan_tree_directory(const struct fan_view *view, const struct fan_dataset *dataset,
                           uint64_t id, char *path, size_t capacity);

/* A parked descriptor of the tree in which a FAN_TREE target lies, and the path from there: or -1.
 * What stands at its number may have been replaced by a program that makes system calls past the
 * library: what is not found there is to be looked for by target->path. */
int fan_tree_top(const struct fan_target *target, const char **path);

/* The path of a FAN_TREE target, by a descriptor, where that is shorter than target->path. Its
 * length or -errno. */
int64_t fan_tree_short_path(const struct fan_target *target, char *buffer, size_t capacity);

/* The view of which such a path is, if this process made it, and the rest: or NULL. */
struct fan_view *fan_tree_match_short(const char *path, const char **rest);

/* The absolute path in the mount of a FAN_TREE target. Its length or -errno. */
int64_t fan_tree_path(const struct fan_target *target, char *buffer, size_t capacity);

/* The type of an entry of a directory of the tree, as readdir(3) has it: what is a link there may
 * be a file of another rank. */
static inline unsigned char fan_tree_shown_type(unsigned char type)
{
    return type == DT_LNK && fan_tree_has_ranks() ? DT_UNKNOWN : type;
}

/* Turns the attributes that the kernel gives a file of the tree into those that the mount shows. */
void fan_tree_show(const struct fan_view *view, struct stat *st);

void fan_tree_show_statx(const struct fan_view *view, struct statx *stx);

/* Puts the target of a link as it lies in the tree into `stored`, and says that there are links.
 * 0 or -ENAMETOOLONG. */
int fan_tree_store_link(const char *target, char stored[PATH_MAX]);

/* Around a rename in the tree (fan_outputs.moves_begun), and after any other change of it. */
void fan_tree_begin_move(void);
void fan_tree_end_move(void);

static inline void fan_tree_changed(void)
{
    __atomic_fetch_add(&fan_job.outputs->changes, 1, __ATOMIC_RELEASE);
}

#endif
