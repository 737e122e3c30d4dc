/*
 * syscall(2) by number: what is ours goes to the wrapper of the same call.
 */
#ifndef FAN_PRELOAD_SYSCALL_H
#define FAN_PRELOAD_SYSCALL_H

struct fan_arguments {
    long a, b, c, d, e, f;
};

/* Any call, in a process with mounts. -1 and errno on failure. */
long fan_syscall_answer(long number, const struct fan_arguments *x);

/* The real call. */
long fan_syscall_pass(long number, const struct fan_arguments *x);

/* io_submit(2): reads of inputs become reads of memory. How many it took, or -errno. */
long fan_submit(long context, long count, void *list);

#endif
