#include "descriptor.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "number.h"
#include "sys.h"

size_t fan_fd_link(int fd, char link[FAN_FD_LINK_BYTES])
{
    /* Does not use stpcpy: a sanitizer's is not ready yet when a new program takes over open
     * files. */
    memcpy(link, FAN_FD_LINKS, sizeof(FAN_FD_LINKS));
    char *end = fan_put_number(link + sizeof(FAN_FD_LINKS) - 1, (unsigned)fd);
    *end = '\0';
    return (size_t)(end - link);
}

int fan_fd_reopen(int fd, int flags)
{
    char link[FAN_FD_LINK_BYTES];
    fan_fd_link(fd, link);
    return fan_sys_openat(AT_FDCWD, link, flags | O_CLOEXEC, 0);
}

/* Room for one descriptor: the kernel writes as many as fit, and CMSG_SPACE would have room for
 * two. */
enum { CONTROL_BYTES = CMSG_LEN(sizeof(int)) };

long fan_fd_send(int socket, const void *data, size_t bytes, int fd, int flags)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {(void *)data, bytes};
    const struct msghdr message = {.msg_iov = &piece,
                                   .msg_iovlen = 1,
                                   .msg_control = control,
                                   .msg_controllen = CONTROL_BYTES};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(part), &fd, sizeof(fd));
    return FAN_SYS(sendmsg, socket, &message, flags);
}

long fan_fd_receive(int socket, void *data, size_t bytes, int *fd, int flags)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {data, bytes};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = CONTROL_BYTES};
    long got = FAN_SYS(recvmsg, socket, &message, flags | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *part = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    *fd = -1;
    if (part != NULL && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(part), sizeof(*fd));
    return got;
}
