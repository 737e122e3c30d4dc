/*
 * Lists of directories in the form of the dynamic linker: RPATH, RUNPATH, LD_LIBRARY_PATH.
 */
#pragma once

#include "code.h"

enum { FAN_CODE_DIRS_MAX = 256 };

struct fan_code_dir {
    const char *path;
    bool foreign; /* in a mount, but the linker will not search it */
};

/* The directories in which to look for a library, in order: existing directories of mounts, and
 * directories outside. Directories for which there is no room are left out. in_mount: at least one
 * of them lies in a mount. */
struct fan_code_dirs {
    unsigned count;
    bool in_mount;
    size_t used;
    struct fan_code_dir dirs[FAN_CODE_DIRS_MAX];
    struct fan_target target;
    char place[PATH_MAX];
    char path[PATH_MAX];
    char texts[1 << 16];
};

/* Adds a list. owner: the path of the file that contains the list, for $ORIGIN; NULL for
 * LD_LIBRARY_PATH. foreign: the linker will look elsewhere for entries that begin with $ORIGIN (for
 * all entries of LD_LIBRARY_PATH), so these are marked foreign, too. Creates the folders in which
 * the linker looks. */
void fan_code_dirs_add(struct fan_code_dirs *dirs, const char *list, const char *owner,
                       bool foreign);

/* Copies LD_LIBRARY_PATH `old` (or NULL), and replaces directories of mounts by their real places,
 * which it makes. target, place: work space. Returns the length or -ENAMETOOLONG. */
int64_t fan_code_dirs_replace(const char *old, char *to, size_t capacity,
                              struct fan_target *target, char place[PATH_MAX]);
