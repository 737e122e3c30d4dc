/*
 * fcntl(2) and ioctl(2) of inputs that are open for reading: what the kernel answers for a file on
 * a read-only file system. No lock, no allocation.
 */
#ifndef FAN_CLIENT_CONTROL_H
#define FAN_CLIENT_CONTROL_H

#include "../files/filetable.h"

/* fcntl(2) of a FAN_FILE_REGULAR, except for duplicating it. Returns its result or -errno. */
long fan_control(int fd, struct fan_file *file, int command, long argument);

/* F_GETFL of a FAN_FILE_COPY: adds the flags that the kernel cannot set on a copy. */
long fan_copy_status(int fd, const struct fan_file *file);

/* ioctl(2) of a FAN_FILE_REGULAR. Its result or -errno. */
long fan_device_control(int fd, struct fan_file *file, unsigned long request, void *argument);

#endif
