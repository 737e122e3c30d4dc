/* Sockets: their names are files too, and descriptors travel through them. */
#include <alloca.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../client/filetable.h"
#include "../client/open.h"
#include "../client/realcopy.h"
#include "../common/sys.h"
#include "real.h"

/* None is made on a mount. The path of a socket address, terminated. false: it has none. */
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

/* Descriptors handed to another process (SCM_RIGHTS): ours mean nothing there, so it is given real
 * copies, at the same offset. */
enum { HANDED_MAX = 253, CONTROL_MAX = 1 << 16 }; /* the first is the kernel's limit */

static bool hands_over(const struct cmsghdr *part)
{
    return part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS;
}

/* Our file behind the `i`th descriptor of a part, or NULL. */
static struct fan_file *handed(const struct cmsghdr *part, size_t i, int *fd)
{
    memcpy(fd, CMSG_DATA(part) + i * sizeof(*fd), sizeof(*fd));
    struct fan_file *file = fan_file_get(*fd);
    return file != NULL && file->kind == FAN_FILE_REGULAR ? file : NULL;
}

static size_t handed_count(const struct cmsghdr *part)
{
    return (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
}

static bool hands_over_ours(const struct msghdr *message)
{
    int fd;
    if (fan_job.view_count == 0 || message == NULL || message->msg_controllen > CONTROL_MAX)
        return false;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR((struct msghdr *)message, part)) {
        for (size_t i = 0; hands_over(part) && i < handed_count(part); i++) {
            if (handed(part, i, &fd) != NULL)
                return true;
        }
    }
    return false;
}

/* Puts copies into the parts of `message`. How many, in `copies`; or -errno. */
static int put_copies(struct msghdr *message, int copies[HANDED_MAX])
{
    int made = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR(message, part)) {
        for (size_t i = 0; hands_over(part) && i < handed_count(part); i++) {
            int fd;
            struct fan_file *file = handed(part, i, &fd);
            if (file == NULL)
                continue;
            int copy = made < HANDED_MAX ? fan_real_copy(file) : -EINVAL;
            if (copy < 0) {
                while (made > 0)
                    fan_sys_close(copies[--made]);
                return copy;
            }
            FAN_SYS(lseek, copy, atomic_load(&file->slot->offset), SEEK_SET);
            copies[made++] = copy;
            memcpy(CMSG_DATA(part) + i * sizeof(copy), &copy, sizeof(copy));
        }
    }
    return made;
}

FAN_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    int copies[HANDED_MAX];
    if (!hands_over_ours(message))
        return REAL(sendmsg)(fd, message, flags);
    struct msghdr own = *message;
    own.msg_control = alloca(own.msg_controllen);
    memcpy(own.msg_control, message->msg_control, own.msg_controllen);
    int made = put_copies(&own, copies);
    if (made < 0)
        return fan_answer(made);
    ssize_t sent = REAL(sendmsg)(fd, &own, flags);
    while (made > 0)
        fan_sys_close(copies[--made]);
    return sent;
}
