/*
 * openat2(2), for which libc has no function: its argument, and its rules for what a path may lead
 * through, in a mount.
 */
#ifndef FAN_PRELOAD_OPENAT2_H
#define FAN_PRELOAD_OPENAT2_H

#include <linux/openat2.h>
#include <stdbool.h>
#include <stddef.h>

/* Reads and checks the `size` bytes at `given`. 0, -EFAULT, -EINVAL or -E2BIG. */
int fan_how_read(struct open_how *how, const void *given, size_t size);

/* openat2 where it concerns a mount: a descriptor, or -1 with errno set. false: the kernel's to
 * answer. */
bool fan_openat2(int dirfd, const char *path, const struct open_how *how, int *fd);

#endif
