/* Sockets: their names would be files, and descriptors travel through them. */
#include <alloca.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "../../client/handoff/move.h"
#include "../../client/outputs/change.h"
#include "../../client/content/realcopy.h"
#include "../../client/handoff/received.h"
#include "../../common/sys.h"
#include "../files/of_file.h"
#include "../real.h"
#include "../undeclared.h"

/* No socket is made in a mount, nor where one of its links leads. */
FAN_EXPORT int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    const size_t start = offsetof(struct sockaddr_un, sun_path);
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_MKNOD, .mode = S_IFSOCK}};
    char path[sizeof(struct sockaddr_un)] = "";
    struct fan_target target;
    int rc;
    if (fan_job.view_count > 0 && address != NULL && bytes > start &&
        bytes <= sizeof(struct sockaddr_un) && address->sa_family == AF_UNIX)
        memcpy(path, (const char *)address + start, bytes - start);
    bool ours = fan_output_change(AT_FDCWD, path, FAN_NOFOLLOW, &call, &target, &rc);
    if (!ours && target.path == path)
        return (int)fan_of_file(REAL(bind)(fd, address, bytes), fd, ENOTSOCK);
    return (int)fan_answer(!ours ? -EPERM : rc == -EEXIST ? -EADDRINUSE : rc);
}

/* Descriptors handed to another process (SCM_RIGHTS): ours mean nothing there, so it is given the
 * real descriptions, which then are ours, too. */
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
    bool placeholder = file != NULL &&
                       (file->kind == FAN_FILE_REGULAR || file->kind == FAN_FILE_PATH);
    return placeholder ? file : NULL;
}

static int make_real(struct fan_file *file)
{
    return file->kind == FAN_FILE_PATH ? fan_real_path(file) : fan_move_make(file);
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
            int copy = made < HANDED_MAX ? make_real(file) : -EINVAL;
            if (copy < 0) {
                while (made > 0)
                    fan_sys_close(copies[--made]);
                return copy;
            }
            copies[made++] = copy;
            memcpy(CMSG_DATA(part) + i * sizeof(copy), &copy, sizeof(copy));
        }
    }
    return made;
}

/* sendmsg with real copies of the descriptors that it hands over. */
static ssize_t send_with_copies(int fd, const struct msghdr *message, int flags)
{
    int copies[HANDED_MAX];
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

FAN_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t sent = hands_over_ours(message) ? send_with_copies(fd, message, flags)
                                            : REAL(sendmsg)(fd, message, flags);
    return fan_of_file(sent, fd, ENOTSOCK);
}

/* Where one of the messages hands over ours, they are sent one after the other. */
FAN_EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    unsigned sent = 0, first = 0;
    while (first < count && !hands_over_ours(&messages[first].msg_hdr))
        first++;
    if (first >= count)
        return (int)fan_of_file(REAL(sendmmsg)(fd, messages, count, flags), fd, ENOTSOCK);
    for (; sent < count && sent < IOV_MAX; sent++) {
        ssize_t bytes = sendmsg(fd, &messages[sent].msg_hdr, flags);
        if (bytes < 0)
            return sent > 0 ? (int)sent : -1;
        messages[sent].msg_len = (unsigned)bytes;
    }
    return (int)sent;
}

static void take_descriptors(struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR(message, part)) {
        for (size_t i = 0; hands_over(part) && i < handed_count(part); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
            fan_received(fd);
        }
    }
}

FAN_EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t got = REAL(recvmsg)(fd, message, flags);
    if (got >= 0 && fan_job.view_count > 0 && message->msg_controllen > 0)
        take_descriptors(message);
    return fan_of_file(got, fd, ENOTSOCK);
}

FAN_EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                        struct timespec *timeout)
{
    int got = REAL(recvmmsg)(fd, messages, count, flags, timeout);
    for (int i = 0; i < got && fan_job.view_count > 0; i++) {
        if (messages[i].msg_hdr.msg_controllen > 0)
            take_descriptors(&messages[i].msg_hdr);
    }
    return (int)fan_of_file(got, fd, ENOTSOCK);
}
