/* A socket's name is a file too: none is made on a mount. */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../client/open.h"
#include "real.h"

/* The path of a socket address, terminated. false: it has none. */
static bool socket_path(const struct sockaddr *address, socklen_t bytes,
                        char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1])
{
    const size_t start = offsetof(struct sockaddr_un, sun_path);
    if (fan_job.view_count == 0 || address == NULL || bytes <= start ||
        bytes > sizeof(struct sockaddr_un) || address->sa_family != AF_UNIX)
        return false;
    memcpy(path, (const char *)address + start, bytes - start);
    path[bytes - start] = '\0';
    return path[0] != '\0';
}

FAN_EXPORT int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
    struct fan_target target;
    if (!socket_path(address, bytes, path) ||
        !fan_locate_change(AT_FDCWD, path, FAN_NOFOLLOW, &target))
        return REAL(bind)(fd, address, bytes);
    int rc = fan_refuse_change(&target, true);
    return (int)fan_answer(rc == -EEXIST ? -EADDRINUSE : rc);
}
