/*
 * Changes of outputs that a program makes itself, in the names segment (format/names_format.h),
 * instead of asking the node daemon: what is common and simple. Everything returns 0, or
 * FAN_NAMES_ASK with nothing done, also where the change would be refused: the daemon says why.
 *
 * What holds at the return holds for all who look, and outlives the caller. A caller that is killed
 * has made all of a change or nothing. Nothing here allocates; signals are to be blocked by the
 * caller, as a handler could want a change, too. It waits 2 ms at most.
 */
#ifndef FAN_CHANGES_CHANGE_H
#define FAN_CHANGES_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "../common/names.h"

/* Who makes a change. */
struct fan_changer {
    struct fan_names names;
    uint32_t thread;
    uint32_t pid; /* as the daemon sees it */
    bool wake;    /* set: the daemon sleeps, and is to be woken */
};

/* Reserves a free name for a file that is to be written. attr: its mode and owner; its object and
 * ino are filled in. */
int fan_change_create(struct fan_changer *changer, const struct fan_names_path *path,
                      struct fan_output_attr *attr);

/* Publishes what this process created, and nobody can write any more, as it is by now. attr: as of
 * its file; object and ino are filled in. */
int fan_change_publish(struct fan_changer *changer, uint64_t object, struct fan_output_attr *attr);

/* Renames a file or link. gone: the object of the file that was replaced, or 0. */
int fan_change_move(struct fan_changer *changer, const struct fan_names_path *from,
                    const struct fan_names_path *to, bool replace, uint64_t *gone);

/* Removes a file or link, or an empty directory. gone: the object of the file, or 0. */
int fan_change_remove(struct fan_changer *changer, const struct fan_names_path *path,
                      bool directory, uint64_t *gone);

/* Makes a directory. attr: its mode, owner and size. */
int fan_change_make(struct fan_changer *changer, const struct fan_names_path *path,
                    struct fan_output_attr *attr);

#endif
