/* Sockets: their names are files too, and descriptors travel through them. */
#include <alloca.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "../../client/handoff/move.h"
#include "../../client/outputs/change.h"
#include "../../client/files/moved.h"
#include "../../client/content/realcopy.h"
#include "../../client/handoff/received.h"
#include "../../common/sys.h"
#include "../files/of_file.h"
#include "../real.h"
#include "../undeclared.h"

enum { NAME_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path) };

/* The path of a socket address, terminated. false: it has none. */
static bool socket_path(const struct sockaddr *address, socklen_t bytes, char path[NAME_BYTES + 1])
{
    const size_t start = offsetof(struct sockaddr_un, sun_path);
    if (fan_job.view_count == 0 || address == NULL || bytes <= start ||
        bytes > sizeof(struct sockaddr_un) || address->sa_family != AF_UNIX)
        return false;
    memcpy(path, (const char *)address + start, bytes - start);
    path[bytes - start] = '\0';
    return path[0] != '\0';
}

/* The address of a real socket file, whose path may be too long for one. directory: a descriptor to
 * be closed after the call, or -1. 0 or -errno. */
static int put_address(const char *path, struct sockaddr_un *address, int *directory)
{
    const char *name = strrchr(path, '/');
    char parent[PATH_MAX];
    *directory = -1;
    address->sun_family = AF_UNIX;
    if (strlen(path) < NAME_BYTES) {
        strcpy(address->sun_path, path);
        return 0;
    }
    if (name == NULL || name == path || strlen(path) >= sizeof(parent))
        return -ENAMETOOLONG;
    memcpy(parent, path, (size_t)(name - path));
    parent[name - path] = '\0';
    *directory = fan_sys_openat(AT_FDCWD, parent, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (*directory < 0)
        return *directory;
    int length = snprintf(address->sun_path, NAME_BYTES, "/proc/self/fd/%d%s", *directory, name);
    if (length < NAME_BYTES)
        return 0;
    fan_sys_close(*directory);
    return -ENAMETOOLONG;
}

/* bind(2) to a real path. */
static int bind_at(int fd, const char *path)
{
    struct sockaddr_un address;
    int directory;
    int rc = put_address(path, &address, &directory);
    if (rc != 0)
        return (int)fan_answer(rc);
    rc = REAL(bind)(fd, (const struct sockaddr *)&address, sizeof(address));
    if (directory >= 0)
        fan_sys_close(directory);
    return rc;
}

static void take_back(const char *path)
{
    struct fan_output_call call = {.request.op = FAN_OUTPUT_UNLINK};
    struct fan_target target;
    int rc;
    fan_output_change(AT_FDCWD, path, FAN_NOFOLLOW, &call, &target, &rc);
}

FAN_EXPORT int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_MKNOD, .mode = S_IFSOCK | 0777}};
    char path[NAME_BYTES + 1], text[FAN_OUTPUT_PATH_MAX];
    struct fan_target target;
    int rc;
    if (!socket_path(address, bytes, path))
        return (int)fan_of_file(REAL(bind)(fd, address, bytes), fd, ENOTSOCK);
    if (!fan_output_change_text(AT_FDCWD, path, FAN_NOFOLLOW, &call, &target, &rc, text))
        return target.path == path ? REAL(bind)(fd, address, bytes) : bind_at(fd, target.path);
    if (rc != 0)
        return (int)fan_answer(rc == -EEXIST ? -EADDRINUSE : rc);
    rc = bind_at(fd, text);
    if (rc < 0)
        take_back(path);
    return rc;
}

/* Which real socket an address means that leads into a mount: 1 with `real`; 0: it is as it stands;
 * -errno. */
static int find_socket(const struct sockaddr *address, socklen_t bytes, struct sockaddr_un *real,
                       int *directory)
{
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_OPEN, .flags = O_RDONLY}};
    char path[NAME_BYTES + 1], text[FAN_OUTPUT_PATH_MAX];
    struct fan_target target;
    int rc;
    if (!socket_path(address, bytes, path))
        return 0;
    bool ours = fan_output_change_text(AT_FDCWD, path, 0, &call, &target, &rc, text);
    if (!ours && target.path == path)
        return 0;
    const char *file = ours ? text : target.path;
    if (ours && (target.where == FAN_INPUT || rc == -ENXIO || (rc == 0 && file[0] != '/')))
        return -ECONNREFUSED; /* an input, another node's, a directory */
    rc = ours && rc != 0 ? rc : put_address(file, real, directory);
    return rc == 0 ? 1 : rc;
}

FAN_EXPORT int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    struct sockaddr_un real;
    int directory;
    int found = find_socket(address, bytes, &real, &directory);
    if (found == 0)
        return (int)fan_of_file(REAL(connect)(fd, address, bytes), fd, ENOTSOCK);
    if (found < 0)
        return (int)fan_answer(found);
    int rc = REAL(connect)(fd, (const struct sockaddr *)&real, sizeof(real));
    if (directory >= 0)
        fan_sys_close(directory);
    return rc;
}

FAN_ALIAS(__connect, connect);

FAN_EXPORT ssize_t sendto(int fd, const void *data, size_t length, int flags,
                          const struct sockaddr *address, socklen_t bytes)
{
    struct sockaddr_un real;
    int directory;
    int found = find_socket(address, bytes, &real, &directory);
    if (found == 0)
        return fan_of_file(REAL(sendto)(fd, data, length, flags, address, bytes), fd, ENOTSOCK);
    if (found < 0)
        return fan_answer(found);
    ssize_t sent =
        REAL(sendto)(fd, data, length, flags, (const struct sockaddr *)&real, sizeof(real));
    if (directory >= 0)
        fan_sys_close(directory);
    return sent;
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
    struct sockaddr_un real;
    struct msghdr own;
    int directory = -1;
    int found = fan_job.view_count == 0 || message == NULL
                    ? 0
                    : find_socket(message->msg_name, message->msg_namelen, &real, &directory);
    if (found < 0)
        return fan_answer(found);
    if (found > 0) {
        own = *message;
        own.msg_name = &real;
        own.msg_namelen = sizeof(real);
        message = &own;
    }
    ssize_t sent = hands_over_ours(message) ? send_with_copies(fd, message, flags)
                                            : REAL(sendmsg)(fd, message, flags);
    if (found > 0 && directory >= 0)
        fan_sys_close(directory);
    return fan_of_file(sent, fd, ENOTSOCK);
}

static bool is_for_us(const struct msghdr *message)
{
    char path[NAME_BYTES + 1];
    return socket_path(message->msg_name, message->msg_namelen, path) || hands_over_ours(message);
}

/* Where one of the messages is for us, they are sent one after the other. */
FAN_EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    unsigned sent = 0, first = 0;
    while (fan_job.view_count > 0 && first < count && !is_for_us(&messages[first].msg_hdr))
        first++;
    if (fan_job.view_count == 0 || first >= count)
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
