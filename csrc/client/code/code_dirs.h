/*
 * Lists of directories as the dynamic linker reads them: RPATH, RUNPATH, LD_LIBRARY_PATH.
 */
#ifndef FAN_CLIENT_CODE_DIRS_H
#define FAN_CLIENT_CODE_DIRS_H

#include "code.h"

enum { FAN_CODE_DIRS_MAX = 256 };

struct fan_code_dir {
    const char *path;
    bool foreign; /* in a mount, and not where the linker looks */
};

/* Directories in which a library is looked for, in order: those of mounts that are there, and those
 * outside. More than fit are left out. */
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

static inline void fan_code_dirs_begin(struct fan_code_dirs *dirs)
{
    dirs->count = 0;
    dirs->used = 0;
    dirs->in_mount = false;
}

/* Adds a list. owner: the path of the file whose list it is, for $ORIGIN; NULL: LD_LIBRARY_PATH.
 * foreign: the linker will look in another place for entries that begin with $ORIGIN (of
 * LD_LIBRARY_PATH: for all); they are marked, too. Folders that it does look into are made. */
void fan_code_dirs_add(struct fan_code_dirs *dirs, const char *list, const char *owner,
                       bool foreign);

/* Whether any of them lies in a mount. */
static inline bool fan_code_dirs_in_mount(const struct fan_code_dirs *dirs)
{
    return dirs->in_mount;
}

/* Copies LD_LIBRARY_PATH with places, which are made, for directories of mounts. old: or NULL.
 * target, place: room to work in. The length or -ENAMETOOLONG. */
int64_t fan_code_dirs_replace(const char *old, char *to, size_t capacity,
                              struct fan_target *target, char place[PATH_MAX]);

#endif
