/*
 * Descriptors: names one by its link in /proc, reopens its file, and sends one through a socket.
 * Makes only system calls: no lock and no malloc; safe in signal handlers, after fork and in a
 * vfork child.
 */
#ifndef FAN_COMMON_DESCRIPTOR_H
#define FAN_COMMON_DESCRIPTOR_H

#include <stddef.h>

#define FAN_FD_LINKS "/proc/self/fd/"
enum { FAN_FD_LINK_BYTES = 32 };

/* Writes "/proc/self/fd/<fd>", terminated. Returns its length. */
size_t fan_fd_link(int fd, char link[FAN_FD_LINK_BYTES]);

/* Opens the file of `fd` again, close-on-exec; the caller closes it. -errno as open(2). */
int fan_fd_reopen(int fd, int flags);

/* sendmsg(2) of `bytes` > 0 together with a duplicate of `fd`. The count or -errno. */
long fan_fd_send(int socket, const void *data, size_t bytes, int fd, int flags);

/* recvmsg(2) of up to `bytes`, blocking unless `flags` say otherwise. The count or -errno. *fd
 * becomes the descriptor that came along, close-on-exec and the caller's; -1: none came. */
long fan_fd_receive(int socket, void *data, size_t bytes, int *fd, int flags);

#endif
