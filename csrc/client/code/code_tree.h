/*
 * A library or program with all that the dynamic linker will load for it, as far as it lies in
 * mounts: each made real at its place, found as ld.so(8) looks for it, by RPATH, LD_LIBRARY_PATH
 * and RUNPATH. Libraries that lie in no mount are left for the linker to find, or to miss.
 */
#ifndef FAN_CLIENT_CODE_TREE_H
#define FAN_CLIENT_CODE_TREE_H

#include "code.h"

enum { FAN_CODE_ITEMS_MAX = 512 };

/* One file. path: as the program that is run knows it, in the mount; place: where it is real, or
 * NULL of one outside. parent: the item that needs it, or -1. */
struct fan_code_item {
    const char *path;
    const char *place;
    const char *rpath;
    int parent;
    bool foreign; /* found in a directory that the linker, which sees places alone, will not look
                     into: one that is named by its absolute path */
};

struct fan_code_tree;

/* Begins with nothing. library_path: LD_LIBRARY_PATH, or NULL; `replaced`: its directories in
 * mounts were given to the linker as their places. NULL: no memory. */
struct fan_code_tree *fan_code_begin(const char *library_path, bool replaced);
void fan_code_end(struct fan_code_tree *tree);

/* Adds a file by the path that a program gives (relative: to the working directory) and makes it
 * real. Its number; -EXDEV: it is outside, at fan_code_outside; or what open(2) for reading, or
 * fan_code_make, answers. */
int fan_code_add(struct fan_code_tree *tree, const char *path);
const char *fan_code_outside(const struct fan_code_tree *tree);

/* The place of the file that was refused last; "" when it has none. */
const char *fan_code_refused(const struct fan_code_tree *tree);

/* Adds a file that is there already: loaded, or outside (place NULL). parent: the item that loaded
 * it, or -1. Its number, or -ENOMEM. */
int fan_code_add_known(struct fan_code_tree *tree, const char *path, const char *place,
                       int parent);

/* Adds all libraries that item `number` and those behind it need. */
void fan_code_close_over(struct fan_code_tree *tree, int number);

/* Looks for one name as for a library that item `number` loads. The item's number, or -ENOENT: it
 * is in no mount. */
int fan_code_find(struct fan_code_tree *tree, int number, const char *name);

unsigned fan_code_count(const struct fan_code_tree *tree);
const struct fan_code_item *fan_code_item(const struct fan_code_tree *tree, unsigned number);

/* Room for the caller's own use, until the next call adds anything. */
struct fan_code_room *fan_code_room(struct fan_code_tree *tree);

/* Whether a list of directories may name one in a mount. */
bool fan_code_mentions_mount(const char *list);

/* LD_LIBRARY_PATH for a program that is about to be run: `old` (or NULL) with places for
 * directories in mounts, which are made, and those of the tree's foreign items behind. In the tree;
 * NULL: it is too long. */
const char *fan_code_library_path(struct fan_code_tree *tree, const char *old);

#endif
