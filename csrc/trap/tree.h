/*
 * Makes real directories that show the names and types in a mount's directories to processes
 * without the library. Each is made when first opened. The files in it are empty placeholders;
 * calls with a path from such a directory are caught.
 */
#pragma once

#include <stdint.h>

#include "../client/job/job.h"

/* Makes the tree's root. Returns 0 or -errno. */
int fan_trap_tree_begin(void);

/* Removes the tree. */
void fan_trap_tree_end(void);

/* An `id` for a directory whose outputs may change: it is listed again at each open. */
#define FAN_TRAP_TREE_CHANGES UINT64_MAX

/* Opens the directory `relpath` of a mount, whose absolute path is `path`. Returns a descriptor,
 * close-on-exec, or -errno. */
int fan_trap_tree_open(struct fan_view *view, const char *relpath, const char *path, uint64_t id,
                       int flags);

/* Call these after a directory was renamed or removed, so that processes with that working
 * directory move with it. */
void fan_trap_tree_move(const char *from, const char *to);
void fan_trap_tree_remove(const char *path);
