#include "family.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../client/machine/park.h"
#include "../../common/descriptor.h"
#include "../../common/sys.h"

void fan_send_fd(int socket, int fd)
{
    fan_fd_send(socket, "", 1, fd, MSG_NOSIGNAL);
}

int fan_receive_fd(int socket)
{
    char byte;
    int fd;
    while (fan_fd_receive(socket, &byte, 1, &fd, 0) == -EINTR) {
    }
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
