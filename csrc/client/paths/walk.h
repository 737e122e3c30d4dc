/*
 * A walk along a path inside a mount (resolve.h says what it finds). Each of these that is a bool
 * gives the answer of fan_locate. A walk that leaves its mount, or is led to another path, says so:
 * whoever began it goes on from there (resolve.c).
 */
#ifndef FAN_CLIENT_WALK_H
#define FAN_CLIENT_WALK_H

#include "resolve.h"

enum { FAN_LINKS_MAX = 40 };

/* A walk in progress: standing in `id`, mostly a directory, with `rest` to go. view: NULL until it
 * has entered a mount. */
struct fan_walk {
    struct fan_target *target;
    struct fan_view *view;
    struct fan_dataset *dataset;
    uint64_t id;
    uint64_t hash;
    uint32_t mode;
    const struct fan_dentry *dentry; /* NULL: not found by its name */
    const char *rest;
    unsigned links;
    unsigned flags;
};

/* Stands in directory `id` of a mount. false: its index cannot be used. */
static inline bool fan_walk_start(struct fan_walk *walk, struct fan_view *view, uint64_t id,
                                  const char *rest)
{
    walk->view = view;
    walk->dataset = fan_view_dataset(view);
    walk->id = id;
    walk->hash = FAN_PATH_HASH_ROOT;
    walk->dentry = NULL;
    walk->rest = rest;
    if (walk->dataset == NULL)
        return false;
    walk->mode = walk->dataset->index.records[id].mode;
    return id == 0 || fan_index_path_hash(&walk->dataset->index, id, &walk->hash) == 0;
}

/* How a walk ends: with one of fan_locate's answers, or at another path. */
enum fan_walk_end {
    FAN_WALK_OUTSIDE = false,
    FAN_WALK_OURS = true,
    FAN_WALK_ON /* to the absolute path in the target's buffer, in a mount or outside */
};

/* Walks the rest of the path. */
enum fan_walk_end fan_walk_run(struct fan_walk *walk);

/* Where a walk ends. */
bool fan_walk_found(const struct fan_walk *walk, bool slash);
bool fan_walk_missing(const struct fan_walk *walk, int error, bool creatable);
bool fan_walk_missing_name(const struct fan_walk *walk, int error, bool creatable, bool slash);
bool fan_walk_outside(struct fan_target *target, int dirfd, const char *path);

/* Ends at the path in the target's buffer, relative to the mount: FAN_BEYOND, or what the daemon
 * says. last: only its last name is not among the inputs. */
enum fan_walk_end fan_walk_beyond(struct fan_walk *walk, bool last, bool slash);

/* The index cannot be mapped: for want of a descriptor, or for good. */
bool fan_walk_unusable(const struct fan_walk *walk);

/* Puts `head` "/" `tail` into the target's buffer, where `tail` may lie already. false: does not
 * fit. */
bool fan_walk_put(struct fan_target *target, const char *head, size_t head_bytes, const char *tail);

#endif
