#include "handing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../client/machine/park.h"
#include "../../common/sys.h"

void fan_send_fd(int socket, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    struct iovec vector = {"", 1};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(part), &fd, sizeof(fd));
    FAN_SYS(sendmsg, socket, &message, MSG_NOSIGNAL);
}

int fan_receive_fd(int socket)
{
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    char byte;
    int fd;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    long got;
    do {
        got = FAN_SYS(recvmsg, socket, &message, MSG_CMSG_CLOEXEC);
    } while (got == -EINTR);
    struct cmsghdr *part = got == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    if (part == NULL || part->cmsg_type != SCM_RIGHTS)
        return -1;
    memcpy(&fd, CMSG_DATA(part), sizeof(fd));
    return fd;
}

static bool is_among(const int *kept, int fd)
{
    while (*kept >= 0 && *kept != fd)
        kept++;
    return *kept == fd;
}

void fan_let_go(const int *kept)
{
    int null = fan_sys_openat(AT_FDCWD, "/dev/null", O_RDWR, 0);
    DIR *dir = opendir("/proc/self/fd");
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        int fd = atoi(entry->d_name);
        bool ours = fd == dirfd(dir) || fd == null || is_among(kept, fd) || fan_is_parked(fd);
        if (fd > 2 && !ours)
            FAN_SYS(close, fd);
    }
    if (dir != NULL)
        closedir(dir);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        FAN_SYS(dup3, null, fd, 0);
    FAN_SYS(chdir, "/");
}
