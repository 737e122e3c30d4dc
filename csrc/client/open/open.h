/*
 * Opens files of the mount, and implements calls on open files other than reads.
 */
#pragma once

#include "../files/filetable.h"
#include "../paths/resolve.h"

/* Does open(2) of a target that was located with the flags of fan_open_resolve (not FAN_OUTSIDE).
 * May resolve the target again. mode: before the umask. Returns a descriptor, or -errno. */
int fan_open(struct fan_target *target, int flags, unsigned mode);

/* Makes a real copy (realcopy.h) of the input that is the target, which must be readable. Returns a
 * descriptor, close-on-exec, or -errno. */
int fan_open_copy(struct fan_target *target);

/* Call it after the kernel opened a directory outside. Notes the directory if it lies above a mount
 * or, through a link, inside one. Returns whether it lies inside one. */
bool fan_open_noticed(int fd, int flags);

/* Call it before the program installs a seccomp filter (../machine/limits.h). Does now the work
 * that the first use of the mounts would do later, with system calls that the filter may not allow.
 */
void fan_restrict(void);

/* Do fcntl(2) and ioctl(2) of inputs that are open for reading, as the kernel would on a read-only
 * file system. Neither takes a lock or allocates. Return the result or -errno. fan_control does not
 * duplicate descriptors. */
long fan_control(int fd, struct fan_file *file, int command, long argument);
long fan_device_control(int fd, struct fan_file *file, unsigned long request, void *argument);

/* Does F_GETFL of a FAN_FILE_COPY: adds the flags that the kernel cannot set on a copy. */
long fan_copy_status(int fd, const struct fan_file *file);
