#include "map_server.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "../../common/descriptor.h"
#include "../../common/original.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "../job/jobsocket.h"
#include "../job/mounts.h"
#include "../machine/limits.h"
#include "in_place.h"

enum { WAIT_S = 5, ERRNO_MAX = 4095 };

/* Set when the server did not answer in time. From then on this process does not ask it. */
static atomic_bool silent;

/* Sends the path and receives the descriptor. Returns it or -errno. */
static int ask(int link, const char *path, size_t bytes, int64_t until_ns)
{
    int32_t error = 0;
    int fd = -1;
    long rc = fan_job_connect(link, "maps", until_ns);
    if (rc == 0)
        do {
            rc = FAN_SYS(sendto, link, path, bytes, MSG_NOSIGNAL, NULL, 0);
        } while (fan_interrupted(rc, until_ns));
    if (rc < 0)
        return (int)rc;
    do {
        rc = fan_fd_receive(link, &error, sizeof(error), &fd, 0);
    } while (fan_interrupted(rc, until_ns));
    if (rc == sizeof(error) && error == 0 && fd >= 0)
        return fd;
    if (fd >= 0)
        fan_sys_close(fd);
    if (rc == sizeof(error))
        return error > 0 && error <= ERRNO_MAX ? -error : -EIO;
    return rc == -EAGAIN ? -EAGAIN : -EIO;
}

/* Returns whether a file is mapped through the server. A compressed file is not: to decode it in
 * many small parts takes longer than to decode it at once. */
static bool is_wanted(const struct fan_file *file)
{
    const struct fan_record *record = file->record;
    uint32_t pack = record->pack;
    bool by_server = fan_job.world_size > 1 || fan_view_is_far(file->view);
    return by_server && record->logical_size > FAN_MAP_COPIED_BYTES &&
           record->codec == FAN_CODEC_STORE &&
           fan_view_place(file->view, pack) != FAN_PLACE_IN_PLACE &&
           fan_view_bar(file->view, pack, file->id) != FAN_DAMAGED && !fan_restricted() &&
           !atomic_load_explicit(&silent, memory_order_relaxed);
}

int fan_map_server_open(const struct fan_file *file)
{
    if (!is_wanted(file))
        return -ENOENT;
    FAN_OFF_STACK(struct fan_path, path);
    struct timeval limit = {.tv_sec = WAIT_S};
    int64_t bytes = path == NULL ? -ENOMEM
                                 : fan_full_path(file->view, file->dataset, file->id, path->text,
                                                 sizeof(path->text));
    int link =
        bytes < 0 ? (int)bytes : (int)FAN_SYS(socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (link < 0)
        return link;
    FAN_SYS(setsockopt, link, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    FAN_SYS(setsockopt, link, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    int fd = ask(link, path->text, (size_t)bytes, fan_clock_ns() + WAIT_S * INT64_C(1000000000));
    fan_sys_close(link);
    if (fd == -EAGAIN)
        atomic_store_explicit(&silent, true, memory_order_relaxed);
    /* If the original has changed since this program opened it, the server has opened another file,
     * and its library has noted that before it did. */
    if (fd >= 0 && fan_view_bar(file->view, file->record->pack, file->id) == FAN_DAMAGED) {
        fan_sys_close(fd);
        fd = -ESTALE;
    }
    return fd;
}
