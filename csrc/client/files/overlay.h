/*
 * The changes that a vfork child makes to its descriptors. It runs in its parent's memory while the
 * parent's thread waits, but has a descriptor table of its own. So its changes are kept per thread,
 * apart from the table, and end when the parent's thread runs again.
 */
#pragma once

#include <stdbool.h>

#include "../machine/vfork.h"

struct fan_file;

/* Returns true if this thread is a vfork child's, so that its overlay applies. Returns false if the
 * child has ended, and then ends its overlay. Call it only if fan_vfork_thread is set. */
bool fan_overlay_look(void);

/* Returns whether the overlay overrides the table. Each entry point of the table calls this, so
 * that the parent's first call after its child has ended also ends the overlay. */
static inline bool fan_overlay_applies(void)
{
    return __builtin_expect(fan_vfork_thread, 0) && fan_overlay_look();
}

/* The vfork wrapper calls it before the child exists. */
void fan_overlay_arm(void);

/* Call it in a fork child, which is no vfork child: the overlay belongs to the parent. */
void fan_overlay_forget(void);

/* Looks `fd` up in the overlay. Returns true if the child changed it: `file` is what it stands for
 * now (NULL: it is closed). */
bool fan_overlay_get(int fd, struct fan_file **file);

/* Records that the child made `fd` stand for `file`, and takes over the reference; NULL: the child
 * closed it. */
void fan_overlay_set(int fd, struct fan_file *file);

/* Returns the number of references to `file` in the overlay: a vfork child has no others of its
 * own. */
unsigned fan_overlay_references(const struct fan_file *file);

/* Records that the child closed a range. */
void fan_overlay_close_range(unsigned first, unsigned last);

/* Calls `visit` for each descriptor that the child changed and that is ours, in its latest state.
 */
void fan_overlay_each(void (*visit)(int fd, struct fan_file *file, void *context), void *context);
