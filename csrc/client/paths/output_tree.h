/*
 * The output tree: each file that a program of this rank makes is an ordinary file of the job
 * directory, in `fan_mount.outputs`, at its path in the mount. The kernel keeps the file's name,
 * attributes, locks and links, and a call on an output is the same call on that path.
 *
 * Once a directory of the dataset has an output in it, it has a counterpart in the tree, and its
 * bit in `touched` is set. Only then are missing names of the directory looked up in the tree.
 *
 * The target of a symbolic link is a path of the mount, which only the library can follow. In the
 * tree the target begins with FAN_TREE_LINK, so that the kernel can never follow it.
 *
 * In a job of several ranks, the rank that keeps a directory keeps the names in it. Other ranks
 * have a pointer in their tree, or nothing: for those names clients ask the daemon
 * (fanstore/outputs/ranks/trees.py).
 */
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include "walk.h"

#define FAN_TREE_LINK "/proc/.fanstore/"    /* nobody can make a file there */
#define FAN_TREE_POINTER "/proc/.fanstore@" /* of a file of another rank: its number follows */
enum {
    FAN_TREE_LINK_BYTES = sizeof(FAN_TREE_LINK) - 1,
    FAN_TREE_POINTER_BYTES = sizeof(FAN_TREE_POINTER) - 1
};

/* Modes of tree directories that stand for a directory of the dataset, or for one of another rank;
 * mkdir(2) gives these modes to no other directory. KNOWN: all ranks look for outputs there, and
 * this rank keeps the names. */
enum {
    FAN_TREE_COUNTERPART_MODE = 05700,
    FAN_TREE_KNOWN_MODE = 05711,
    FAN_TREE_STAND_IN_MODE = 04700
};

/* Returns the inode number that every rank reports for an output of this rank. Bit 62 is set, which
 * it is not in the inode number of any input. */
static inline uint64_t fan_tree_inode(uint64_t inode)
{
    return (inode ^ (uint64_t)fan_job.header->rank << 44) | UINT64_C(1) << 62;
}

static inline bool fan_tree_has_ranks(void)
{
    return fan_job.header->world_size > 1;
}

/* Returns whether there may be symbolic links in the tree. */
static inline bool fan_tree_has_links(void)
{
    return __atomic_load_n(&fan_job.outputs->links, __ATOMIC_ACQUIRE) != 0;
}

/* Returns fan_outputs.pointers, or 0 if there are no other ranks, or no mounts. */
static inline uint64_t fan_tree_pointers(void)
{
    bool has_ranks = fan_job.view_count > 0 && fan_tree_has_ranks();
    return has_ranks ? __atomic_load_n(&fan_job.outputs->pointers, __ATOMIC_SEQ_CST) : 0;
}

/* Returns whether a path goes through no link and no "..". Makes at most one system call. */
bool fan_tree_is_straight(const struct fan_walk *walk, int dirfd, const char *path);

/* Returns whether this rank may look at or change a path in the tree by itself, without following a
 * link on the way. */
bool fan_tree_is_own(const struct fan_walk *walk, int dirfd, const char *path);

/* Continues a walk from an input directory that has no input `name`: looks in the tree for the name
 * and for the rest of the walk. slash: a slash follows the name. Ends at FAN_TREE, at another path
 * of the mount, or like fan_walk_beyond. */
enum fan_walk_end fan_tree_walk(struct fan_walk *walk, const char *name, bool slash);

/* Turns a FAN_TREE target into a FAN_BEYOND one, about which the daemon is asked. Returns 0 or
 * -errno. */
int fan_tree_ask(struct fan_target *target);

/* Ends a walk at a path of the tree. */
bool fan_tree_found(const struct fan_walk *walk, int dirfd, const char *path);

/* Makes the counterpart of an input directory, if need be, and writes its path. Returns 0 or
 * -errno. */
int fan_tree_counterpart(struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                         char *path, size_t capacity);

/* Makes the counterpart whose path in the tree is already in `path`. */
int fan_tree_make_counterpart(struct fan_view *view, uint64_t id, char *path);

/* Returns the length of the part of a tree path that stands for the mount's root. */
size_t fan_tree_top_bytes(const struct fan_view *view, const char *path);

/* Writes the path of the counterpart of an input directory, whether the counterpart exists or not.
 * Uses a descriptor of the tree if the plain path does not fit. Returns the length or -errno. */
int64_t fan_tree_directory(const struct fan_view *view, const struct fan_dataset *dataset,
                           uint64_t id, char *path, size_t capacity);

/* Returns a parked descriptor of the tree in which a FAN_TREE target lies, and sets `path` to the
 * path from there; or returns -1. A program that makes system calls without the library may have
 * replaced the descriptor: if a name is not found from there, look for target->path. */
int fan_tree_top(const struct fan_target *target, const char **path);

/* Writes the path of a FAN_TREE target through a descriptor, for a target->path that is too long.
 * Returns its length or -errno. */
int64_t fan_tree_short_path(const struct fan_target *target, char *buffer, size_t capacity);

/* Returns the view of such a path, if this process made the path, or NULL. Sets `rest` to the
 * remainder. */
struct fan_view *fan_tree_match_short(const char *path, const char **rest);

/* Writes the absolute path in the mount of a FAN_TREE target. Returns its length or -errno. */
int64_t fan_tree_path(const struct fan_target *target, char *buffer, size_t capacity);

/* Returns the type that readdir(3) shows for an entry of a tree directory: a link in the tree may
 * stand for a file of another rank. */
static inline unsigned char fan_tree_shown_type(unsigned char type)
{
    return type == DT_LNK && fan_tree_has_ranks() ? DT_UNKNOWN : type;
}

/* Changes the kernel's attributes of a file in the tree into those that the mount shows. */
void fan_tree_show(const struct fan_view *view, struct stat *st);

void fan_tree_show_statx(const struct fan_view *view, struct statx *stx);

/* Writes the target of a link to `stored`, in the form that the tree holds, and notes that the tree
 * has links. Returns 0 or -ENAMETOOLONG. */
int fan_tree_store_link(const char *target, char stored[PATH_MAX]);

/* Call the first two around a rename in the tree (fan_outputs.moves_begun), and fan_tree_changed
 * after any other change. */
void fan_tree_begin_move(void);
void fan_tree_end_move(void);

static inline void fan_tree_changed(void)
{
    __atomic_fetch_add(&fan_job.outputs->changes, 1, __ATOMIC_RELEASE);
}
