/*
 * A walk along a path inside a mount (resolve.h lists the possible results). The functions that
 * return a bool return the result of fan_locate. A walk that leaves its mount, or that follows a
 * link to another path, returns FAN_WALK_ON: the caller continues from there (resolve.c).
 */
#pragma once

#include "resolve.h"

enum { FAN_LINKS_MAX = 40 };

/* A walk in progress. It has reached record `id`, usually a directory; `rest` is the remaining
 * path. view: NULL until the walk enters a mount. */
struct fan_walk {
    struct fan_target *target;
    struct fan_view *view;
    struct fan_dataset *dataset;
    uint64_t id;
    uint64_t hash;
    uint32_t mode;
    const char *rest;
    unsigned links;
    unsigned flags;
};

/* Places the walk in directory `id` of a mount. Returns false if the mount's index cannot be
 * used. */
static inline bool fan_walk_start(struct fan_walk *walk, struct fan_view *view, uint64_t id,
                                  const char *rest)
{
    walk->view = view;
    walk->dataset = fan_view_dataset(view);
    walk->id = id;
    walk->hash = FAN_PATH_HASH_ROOT;
    walk->rest = rest;
    if (walk->dataset == NULL)
        return false;
    walk->mode = walk->dataset->index.records[id].mode;
    return id == 0 || fan_index_path_hash(&walk->dataset->index, id, &walk->hash) == 0;
}

/* The end of a walk: one of fan_locate's results, or another path. */
enum fan_walk_end {
    FAN_WALK_OUTSIDE = false,
    FAN_WALK_OURS = true,
    FAN_WALK_ON /* continue at the absolute path in the target's buffer, in a mount or outside */
};

/* Walks the rest of the path. */
enum fan_walk_end fan_walk_run(struct fan_walk *walk);

/* Each of these ends a walk: fills its target and returns the result of fan_locate. */
bool fan_walk_found(const struct fan_walk *walk, bool slash);
bool fan_walk_missing(const struct fan_walk *walk, int error, bool creatable);
bool fan_walk_missing_name(const struct fan_walk *walk, int error, bool creatable, bool slash);
bool fan_walk_outside(struct fan_target *target, int dirfd, const char *path);

/* Ends the walk at the path in the target's buffer, relative to the mount: as FAN_BEYOND, or with
 * the daemon's answer. last: only the last name of the path is not among the inputs. */
enum fan_walk_end fan_walk_beyond(struct fan_walk *walk, bool last, bool slash);

/* Ends a walk whose index cannot be mapped, either because there is no free descriptor or for
 * good. */
bool fan_walk_unusable(const struct fan_walk *walk);

/* Writes `head` "/" `tail` to the target's buffer, which may already contain `tail`. Returns false
 * if the result does not fit. */
bool fan_walk_put(struct fan_target *target, const char *head, size_t head_bytes, const char *tail);
