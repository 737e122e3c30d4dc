/*
 * Finds out whether this thread is a vfork child's. Such a child runs in its parent's memory, with
 * descriptors, signals and a working directory of its own, while the parent's thread waits. The
 * checks change nothing and may be called anywhere. overlay.h keeps the child's changes to its
 * descriptors.
 */
#pragma once

#include <stdbool.h>

/* Set just before a vfork, and cleared when the parent's thread notices that its child has
 * ended. */
extern __thread bool fan_vfork_thread __attribute__((tls_model("initial-exec")));

/* Returns whether this thread, whose fan_vfork_thread is set, is a vfork child's. Makes one system
 * call. */
bool fan_is_vfork_child(void);

/* Returns whether this thread is a vfork child's. Makes no system call while fan_vfork_thread is
 * not set. */
static inline bool fan_in_vfork_child(void)
{
    return __builtin_expect(fan_vfork_thread, 0) && fan_is_vfork_child();
}

/* Call it before a vfork: from now on this thread may be a vfork child's. */
void fan_vfork_expect(void);

/* Call it when the child has ended: this thread is the parent's until the next fan_vfork_expect. */
void fan_vfork_over(void);
