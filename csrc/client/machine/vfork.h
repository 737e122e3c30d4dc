/*
 * Whether this thread is a vfork child's: that one runs in its parent's memory, with descriptors,
 * signals and a working directory of its own, while the parent's thread waits. Pure questions: they
 * change nothing, and may be asked anywhere. What the child does to its descriptors: overlay.h.
 */
#ifndef FAN_CLIENT_VFORK_H
#define FAN_CLIENT_VFORK_H

#include <stdbool.h>

/* Set from before a vfork until the parent's thread has noticed that its child has gone. */
extern __thread bool fan_vfork_thread __attribute__((tls_model("initial-exec")));

/* Whether this thread, whose fan_vfork_thread is set, is a vfork child's. One system call. */
bool fan_is_vfork_child(void);

/* Whether this is a vfork child. */
static inline bool fan_in_vfork_child(void)
{
    return __builtin_expect(fan_vfork_thread, 0) && fan_is_vfork_child();
}

/* From here on this thread may be a vfork child's. */
void fan_vfork_expect(void);

/* This thread is none, and will be none before the next fan_vfork_expect. */
void fan_vfork_over(void);

#endif
