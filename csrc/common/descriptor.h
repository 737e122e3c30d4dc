/*
 * Names a descriptor by its link in /proc, reopens its file, and sends it through a socket. Makes
 * only system calls: takes no lock and does not call malloc; safe in signal handlers, after fork
 * and in a vfork child.
 */
#pragma once

#include <stddef.h>

#define FAN_FD_LINKS "/proc/self/fd/"
enum { FAN_FD_LINK_BYTES = 32 };

/* Writes "/proc/self/fd/<fd>" and a NUL. Returns the length without the NUL. */
size_t fan_fd_link(int fd, char link[FAN_FD_LINK_BYTES]);

/* Opens the file of `fd` again, close-on-exec. Returns a descriptor, which the caller closes, or
 * the -errno of open(2). */
int fan_fd_reopen(int fd, int flags);

/* Does sendmsg(2) of `bytes` > 0 bytes together with a duplicate of `fd`. Returns the number of
 * bytes sent or -errno. */
long fan_fd_send(int socket, const void *data, size_t bytes, int fd, int flags);

/* Does recvmsg(2) of up to `bytes` bytes, and blocks unless `flags` forbid it. Returns the number
 * of bytes or -errno. Sets *fd to the descriptor that came with them, close-on-exec, which the
 * caller closes; or to -1 if none came. */
long fan_fd_receive(int socket, void *data, size_t bytes, int *fd, int flags);
