/*
 * Changes that a vfork child makes to its descriptors. It runs in its parent's memory while the
 * parent's thread waits, with a descriptor table of its own, so its changes are kept per thread,
 * beside the table, and end when the parent's thread runs again.
 */
#ifndef FAN_CLIENT_OVERLAY_H
#define FAN_CLIENT_OVERLAY_H

#include <stdbool.h>

#include "../machine/vfork.h"

struct fan_file;

/* true: this thread is a vfork child's, and its overlay holds. false: the child has gone, and its
 * overlay is ended now. To be asked only where fan_vfork_thread is set. */
bool fan_overlay_look(void);

/* Whether the overlay comes before the table. Asked by each of the table's entry points, so that
 * the parent's first one after its child has gone ends the overlay. */
static inline bool fan_overlay_applies(void)
{
    return __builtin_expect(fan_vfork_thread, 0) && fan_overlay_look();
}

/* Called by the vfork wrapper, before the child exists. */
void fan_overlay_arm(void);

/* In a fork child, which is none: the thread's overlay was its parent's. */
void fan_overlay_forget(void);

/* The child's view of `fd`: true with `file` (NULL: closed) when the child changed it. */
bool fan_overlay_get(int fd, struct fan_file **file);

/* The child made `fd` stand for `file`, whose reference passes to the overlay; or NULL: closed. */
void fan_overlay_set(int fd, struct fan_file *file);

/* How many references to `file` the overlay holds: all that a vfork child has of its own. */
unsigned fan_overlay_references(const struct fan_file *file);

/* The child closed a range. */
void fan_overlay_close_range(unsigned first, unsigned last);

/* The child's changed descriptors that are ours, latest state only. */
void fan_overlay_each(void (*visit)(int fd, struct fan_file *file, void *context), void *context);

#endif
