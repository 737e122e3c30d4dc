/* Sockets: addresses that are paths, and descriptors that are sent through sockets. */
#include <alloca.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "../../client/handoff/handoff.h"
#include "../../client/outputs/change.h"
#include "../../client/content/realcopy.h"
#include "../../client/paths/output_tree.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../files/of_file.h"
#include "../real.h"

#define PATH_START offsetof(struct sockaddr_un, sun_path)

/* Copies the path in an address, with a NUL; an empty text if it has none. */
static void take_path(const struct sockaddr *address, socklen_t bytes,
                      char path[sizeof(struct sockaddr_un)])
{
    path[0] = '\0';
    if (fan_job.view_count > 0 && fan_given(address) && bytes > PATH_START &&
        bytes <= sizeof(struct sockaddr_un) && address->sa_family == AF_UNIX) {
        memcpy(path, (const char *)address + PATH_START, bytes - PATH_START);
        path[bytes - PATH_START] = '\0';
    }
}

typedef int call_fn(int fd, const struct sockaddr *address, socklen_t bytes);

/* Calls bind or connect for a socket in an output tree. An address has room for 108 bytes, which
 * the path in the job directory may exceed. */
static int in_tree(call_fn *call, int fd, const struct fan_target *target)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t bytes = strlen(target->path);
    if (bytes < sizeof(address.sun_path)) {
        memcpy(address.sun_path, target->path, bytes);
    } else {
        int64_t length = fan_tree_short_path(target, address.sun_path, sizeof(address.sun_path));
        if (length < 0)
            return (int)fan_answer(length);
        bytes = (size_t)length;
    }
    return call(fd, (const struct sockaddr *)&address, (socklen_t)(PATH_START + bytes + 1));
}

/* Replaces the kernel's path of a socket in an output tree by the mount's path. room: the size of
 * the address. */
static void show_address(struct sockaddr *address, socklen_t room, socklen_t *bytes)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    char path[sizeof(struct sockaddr_un)];
    const char *rest;
    take_path(address, *bytes < room ? *bytes : room, path);
    if (path[0] != '/' || *bytes > room)
        return;
    const struct fan_view *view = fan_job_match(path, &rest);
    view = view != NULL ? view : fan_tree_match_short(path, &rest);
    if (view == NULL || view->prefix.bytes + strlen(rest) + 2 > sizeof(own.sun_path))
        return;
    char *end = mempcpy(own.sun_path, view->prefix.text, view->prefix.bytes);
    *end++ = '/';
    socklen_t whole = (socklen_t)(stpcpy(end, rest) - (char *)&own) + 1;
    memcpy(address, &own, whole < room ? whole : room);
    *bytes = whole;
}

typedef int name_fn(int fd, struct sockaddr *address, socklen_t *bytes);

static int shown_name(name_fn *call, int fd, struct sockaddr *address, socklen_t *bytes)
{
    socklen_t room = fan_given(bytes) ? *bytes : 0;
    int rc = call(fd, address, bytes);
    if (rc == 0 && fan_job.view_count > 0)
        show_address(address, room, bytes);
    return (int)fan_of_file(rc, fd, ENOTSOCK);
}

FAN_EXPORT int getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
    return shown_name(REAL(getsockname), fd, address, bytes);
}

FAN_EXPORT int getpeername(int fd, struct sockaddr *address, socklen_t *bytes)
{
    return shown_name(REAL(getpeername), fd, address, bytes);
}

/* Binds to a name that another rank keeps: the daemon makes it, and says where it is in the output
 * tree. Returns -errno. */
static __attribute__((noinline)) int bind_beyond(int fd, struct fan_target *target)
{
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_MKNOD, .mode = S_IFSOCK}};
    struct fan_output_answer answer;
    FAN_OFF_STACK(struct fan_path, path);
    int rc = path == NULL
                 ? -ENOMEM
                 : fan_output_ask_of(target, &call, FAN_NOFOLLOW | FAN_NAME | FAN_CHANGE | FAN_MAKE,
                                     &answer, path->text);
    if (rc != 0 || answer.where != FAN_OUTPUT_TREE)
        return rc != 0 ? rc : -EPERM;
    struct fan_target there = {
        .where = FAN_TREE, .view = target->view, .dirfd = AT_FDCWD, .path = path->text};
    return in_tree(REAL(bind), fd, &there) == 0 ? 0 : -errno;
}

/* Does not make a socket outside through a link of a mount. */
FAN_EXPORT int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    char path[sizeof(struct sockaddr_un)];
    struct fan_target target;
    take_path(address, bytes, path);
    bool ours = fan_locate_change(AT_FDCWD, path, FAN_NOFOLLOW | FAN_NAME | FAN_MAKE, &target);
    if (!ours && target.where == FAN_TREE)
        return (int)fan_of_file(in_tree(REAL(bind), fd, &target), fd, ENOTSOCK);
    if (!ours && target.path == path)
        return (int)fan_of_file(REAL(bind)(fd, address, bytes), fd, ENOTSOCK);
    int rc = !ours                        ? -EPERM
             : target.where == FAN_BEYOND ? bind_beyond(fd, &target)
                                          : fan_output_refuse(&target, FAN_OUTPUT_MKNOD);
    return (int)fan_answer(rc == -EEXIST ? -EADDRINUSE : rc);
}

FAN_EXPORT int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    char path[sizeof(struct sockaddr_un)];
    struct fan_target target;
    take_path(address, bytes, path);
    if (path[0] == '\0')
        return (int)fan_of_file(REAL(connect)(fd, address, bytes), fd, ENOTSOCK);
    bool ours = fan_locate(AT_FDCWD, path, FAN_THROUGH, &target);
    if (ours)
        return (int)fan_answer(target.where == FAN_MISSING ? -target.error : -ECONNREFUSED);
    int rc = target.where == FAN_TREE ? in_tree(REAL(connect), fd, &target)
                                      : REAL(connect)(fd, address, bytes);
    return (int)fan_of_file(rc, fd, ENOTSOCK);
}

/* Descriptors sent to another process (SCM_RIGHTS). The process could not use placeholders, so it
 * gets real files; from then on these stand for our files here, too. */
enum { HANDED_MAX = 253, CONTROL_MAX = 1 << 16 }; /* the first is the kernel's limit */

static bool hands_over(const struct cmsghdr *part)
{
    return part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS;
}

/* Returns our file of descriptor number `i` in a part, or NULL. */
static struct fan_file *handed(const struct cmsghdr *part, size_t i, int *fd)
{
    memcpy(fd, CMSG_DATA(part) + i * sizeof(*fd), sizeof(*fd));
    struct fan_file *file = fan_file_get(*fd);
    return fan_is_placeholder(file) ? file : NULL;
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

/* Puts copies into the parts of `message`. Returns how many it put into `copies`; or -errno. */
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

/* Calls sendmsg with real copies of the descriptors in the message. */
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

/* Sends the messages one by one if one of them contains a descriptor of ours. */
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
