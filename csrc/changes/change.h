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

/* Who makes a change. rank: whose program that is. hurried: it waits for nobody. */
struct fan_changer {
    struct fan_names names;
    uint32_t thread;
    uint32_t rank;
    uint32_t pid; /* as the daemon of that rank sees it */
    bool hurried;
    bool wake; /* set: the daemon sleeps, and is to be woken */
};

/* What is to be changed. change: its kind and, of what is made, its attr; of PUBLISHED its object;
 * of another rank's program, the object of what it makes. The rest of it is filled in: what is in
 * the log then. other: of MOVED. replace: what is at `other`. directory: an empty one is REMOVED.
 * alter: of ALTERED, makes the new attributes of those that are there, as `how` says; it blocks on
 * nothing. false: the daemon is to be asked. */
struct fan_wish {
    struct fan_change change;
    struct fan_names_path path;
    struct fan_names_path other;
    bool replace;
    bool directory;
    bool (*alter)(const void *how, struct fan_output_attr *attr);
    const void *how;
};

/* CREATED reserves a free name for a file that is to be written. PUBLISHED publishes what the same
 * process created, and nobody can write any more, as it is by now. MOVED renames a file or link,
 * and REMOVED removes one, or a directory. MADE makes a directory. ALTERED gives what nobody writes
 * other attributes; change.object: 1 where that sets times. */
int fan_change_make(struct fan_changer *changer, struct fan_wish *wish);

/* The rank that keeps a name. Pure. */
uint32_t fan_change_home(const struct fan_names *names, const struct fan_names_path *path);

#endif
