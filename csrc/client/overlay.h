/*
 * What a vfork child does to its descriptors. It runs in its parent's memory while the parent's
 * thread waits, with a descriptor table of its own, so its changes are kept per thread, beside the
 * table, and end when the parent's thread runs again.
 */
#ifndef FAN_CLIENT_OVERLAY_H
#define FAN_CLIENT_OVERLAY_H

#include <stdbool.h>

struct fan_file;

/* Set by the vfork wrapper for its thread, before the child exists. */
extern __thread bool fan_vfork_thread __attribute__((tls_model("initial-exec")));

/* Whether this thread, of which that is known, is a vfork child's. */
bool fan_is_vfork_child(void);

/* Whether this is a vfork child. The first call of the parent after its child has gone ends the
 * overlay. */
static inline bool fan_in_vfork_child(void)
{
    return __builtin_expect(fan_vfork_thread, 0) && fan_is_vfork_child();
}

/* Called by the vfork wrapper: from here on this thread may be a vfork child. */
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
