#include "jobsocket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../../common/descriptor.h"
#include "../../common/sys.h"
#include "job.h"

bool fan_interrupted(long rc, int64_t until_ns)
{
    return rc == -EINTR && fan_clock_ns() < until_ns;
}

/* Writes "<start>/<name>" as a socket address. Returns false if it does not fit. */
static bool make_address(const char *start, size_t bytes, const char *name,
                         struct sockaddr_un *address)
{
    size_t name_bytes = strlen(name) + 1;
    address->sun_family = AF_UNIX;
    if (bytes + 1 + name_bytes > sizeof(address->sun_path))
        return false;
    memcpy(address->sun_path, start, bytes);
    address->sun_path[bytes] = '/';
    memcpy(address->sun_path + bytes + 1, name, name_bytes);
    return true;
}

static int connect_to(int link, const struct sockaddr_un *address, int64_t until_ns)
{
    long rc;
    do {
        rc = FAN_SYS(connect, link, address, sizeof(*address));
    } while (fan_interrupted(rc, until_ns));
    return (int)rc;
}

int fan_job_connect(int link, const char *name, int64_t until_ns)
{
    struct sockaddr_un address;
    const struct fan_text *job = &fan_job.directory;
    if (make_address(job->text, job->bytes, name, &address))
        return connect_to(link, &address, until_ns);
    char start[FAN_FD_LINK_BYTES];
    int directory = fan_sys_openat(AT_FDCWD, job->text, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (directory < 0)
        return directory;
    bool fits = make_address(start, fan_fd_link(directory, start), name, &address);
    int rc = fits ? connect_to(link, &address, until_ns) : -ENAMETOOLONG;
    fan_sys_close(directory);
    return rc;
}
