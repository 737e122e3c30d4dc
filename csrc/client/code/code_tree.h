/*
 * Makes real a library or program, and all libraries in mounts that the dynamic linker will load
 * for it. Searches for them as ld.so(8) does, by RPATH, LD_LIBRARY_PATH and RUNPATH. The linker
 * itself finds the libraries that lie in no mount, or fails to.
 */
#pragma once

#include "code.h"

enum { FAN_CODE_ITEMS_MAX = 512 };

/* One file. path: the program's own path for it, in the mount; place: the path of the real file, or
 * NULL for a file outside. parent: the number of the item that needs it, or -1. */
struct fan_code_item {
    const char *path;
    const char *place;
    const char *rpath;
    int parent;
    bool foreign; /* found in a directory that the linker will not search, because it only knows
                   * real places: one that is named by its absolute path */
};

struct fan_code_tree;

/* Makes an empty tree. library_path: LD_LIBRARY_PATH, or NULL; replaced: the linker was given the
 * real places of its directories in mounts. Returns NULL if there is no memory. */
struct fan_code_tree *fan_code_begin(const char *library_path, bool replaced);
void fan_code_end(struct fan_code_tree *tree);

/* Adds a file by a program's path (a relative one starts at the working directory) and makes it
 * real. Returns its number; -EXDEV: the file is outside, at fan_code_outside; or an error of
 * open(2) for reading or of fan_code_make. */
int fan_code_add(struct fan_code_tree *tree, const char *path);
const char *fan_code_outside(const struct fan_code_tree *tree);

/* Returns the place of the last file that fan_code_add refused; "" if it has none. */
const char *fan_code_refused(const struct fan_code_tree *tree);

/* Adds a file that needs no work: it is loaded already, or lies outside (place NULL). parent: the
 * item that loaded it, or -1. Returns its number, or -ENOMEM. */
int fan_code_add_known(struct fan_code_tree *tree, const char *path, const char *place,
                       int parent);

/* Adds all libraries that item `number` and those behind it need. */
void fan_code_close_over(struct fan_code_tree *tree, int number);

/* Searches for a library by name as if item `number` loaded it. Returns the library's number, or
 * -ENOENT if it lies in no mount. */
int fan_code_find(struct fan_code_tree *tree, int number, const char *name);

unsigned fan_code_count(const struct fan_code_tree *tree);
const struct fan_code_item *fan_code_item(const struct fan_code_tree *tree, unsigned number);

/* Returns buffers that the caller may use until its next call that adds a file. */
struct fan_code_room *fan_code_room(struct fan_code_tree *tree);

/* Returns whether a list of directories may name one in a mount. */
bool fan_code_mentions_mount(const char *list);

/* Returns LD_LIBRARY_PATH for a program that is about to run: `old` (or NULL) with directories in
 * mounts replaced by their places, which it makes, followed by the places of the tree's foreign
 * items. The text lies in the tree. NULL: it is too long. */
const char *fan_code_library_path(struct fan_code_tree *tree, const char *old);
