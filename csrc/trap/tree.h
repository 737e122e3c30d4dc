/*
 * Real directories with the names and types of a mount's, made when one is first opened: what a
 * process without the library lists. Files in it are empty and mean nothing; whatever is asked
 * about a path from such a directory is caught.
 */
#ifndef FAN_TRAP_TREE_H
#define FAN_TRAP_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "../client/job/job.h"

/* Makes the tree's root. 0 or -errno. */
int fan_trap_tree_begin(void);

/* Removes the tree. */
void fan_trap_tree_end(void);

/* A record whose directory holds no outputs, or: list it anew each time. */
#define FAN_TRAP_TREE_CHANGES UINT64_MAX

/* Opens the directory `relpath` of a mount, which is `path`. A descriptor, closed on exec, or
 * -errno. */
int fan_trap_tree_open(struct fan_view *view, const char *relpath, const char *path, uint64_t id,
                       int flags);

/* After a rename, or a removal, of a directory: those who stand in it go with it. */
void fan_trap_tree_move(const char *from, const char *to);
void fan_trap_tree_remove(const char *path);

#endif
