#include "store.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "../../common/descriptor.h"
#include "../../common/sys.h"

enum {
    CROWDED_BYTES = 32 << 10, /* by the kernel's count; some 40 descriptors */
    ROUNDS = 50,              /* passes of a search, 1 ms apart: an entry may be moving */
    ENTRIES_MAX = 1 << 12,
    QUEUED = 0x5411, /* the number of SIOCOUTQ */
};

/* Binds the socket to a name that the kernel chooses, and connects it to that name, so that no
 * other socket can send to it. */
static int connect_to_itself(int fd)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    uint32_t bytes = sizeof(name);
    long rc = FAN_SYS(bind, fd, &name, sizeof(name.sun_family));
    if (rc == 0)
        rc = FAN_SYS(getsockname, fd, &name, &bytes);
    return rc == 0 ? (int)FAN_SYS(connect, fd, &name, bytes) : (int)rc;
}

int fan_store_new(void)
{
    int fd = (int)FAN_SYS(socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int rc = fd >= 0 ? connect_to_itself(fd) : fd;
    if (fd >= 0 && rc != 0)
        fan_sys_close(fd);
    return rc != 0 ? rc : fd;
}

static int send_one(int store, const struct fan_store_tag *tag, int fd)
{
    long rc = fan_fd_send(store, tag, sizeof(*tag), fd, MSG_DONTWAIT | MSG_NOSIGNAL);
    return rc < 0 ? (int)rc : 0;
}

/* Takes the next entry with its descriptor from the queue. Returns -EAGAIN if there is none. */
static int receive(int store, struct fan_store_tag *tag, int flags)
{
    int fd;
    long got = fan_fd_receive(store, tag, sizeof(*tag), &fd, flags | MSG_DONTWAIT);
    if (got < 0 || fd < 0)
        return got < 0 ? (int)got : -EMFILE;
    if (got == sizeof(*tag))
        return fd;
    fan_sys_close(fd);
    return -EIO;
}

/* Takes the oldest entry, and adds it again if it is still needed. */
static bool tidy(int store, fan_store_stale *is_stale, const void *context)
{
    struct fan_store_tag tag;
    int fd = receive(store, &tag, 0);
    if (fd < 0)
        return false;
    if (!is_stale(&tag, context))
        send_one(store, &tag, fd);
    fan_sys_close(fd);
    return true;
}

int fan_store_put(int store, const struct fan_store_tag *tag, int fd, fan_store_stale *is_stale,
                  const void *context)
{
    int queued = 0;
    FAN_SYS(ioctl, store, QUEUED, &queued);
    for (int i = 0; queued > CROWDED_BYTES && i < 4; i++) {
        if (!tidy(store, is_stale, context))
            break;
    }
    return send_one(store, tag, fd);
}

/* Reads the entry at a place in the queue, without its descriptor. Other processes may move the
 * place. */
static int peek(int store, unsigned place, struct fan_store_tag *tag)
{
    struct iovec part = {tag, sizeof(*tag)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int offset = (int)(place * sizeof(*tag));
    long rc = FAN_SYS(setsockopt, store, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset));
    if (rc == 0)
        rc = FAN_SYS(recvmsg, store, &message, MSG_PEEK | MSG_DONTWAIT);
    return rc < 0 ? (int)rc : rc == sizeof(*tag) ? 0 : -EAGAIN;
}

/* Goes through the queue once. */
static int search(int store, int64_t key)
{
    struct fan_store_tag tag;
    for (unsigned place = 0; place < ENTRIES_MAX; place++) {
        int offset = (int)(place * sizeof(tag));
        int rc = peek(store, place, &tag);
        if (rc != 0)
            return rc == -EAGAIN ? -ENOENT : rc;
        if (tag.key != key)
            continue;
        FAN_SYS(setsockopt, store, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset));
        int fd = receive(store, &tag, MSG_PEEK);
        if (fd < 0 || tag.key == key)
            return fd == -EAGAIN ? -ENOENT : fd;
        fan_sys_close(fd);
    }
    return -ENOENT;
}

int fan_store_get(int store, int64_t key)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int fd = search(store, key);
    for (int round = 1; fd == -ENOENT && round < ROUNDS; round++) {
        FAN_SYS(nanosleep, &pause, NULL);
        fd = search(store, key);
    }
    return fd;
}
