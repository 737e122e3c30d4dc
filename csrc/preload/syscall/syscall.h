/*
 * syscall(2) by number: passes calls on our files to the intercepted function of the same call.
 */
#ifndef FAN_PRELOAD_SYSCALL_H
#define FAN_PRELOAD_SYSCALL_H

struct fan_arguments {
    long a, b, c, d, e, f;
};

/* Answers any call, in a process with mounts. Returns -1 and sets errno on failure. */
long fan_syscall_answer(long number, const struct fan_arguments *x);

/* Is io_submit(2), but turns reads of inputs into reads of memory. Returns how many entries it
 * accepted, or -errno. */
long fan_submit(long context, long count, void *list);

#endif
