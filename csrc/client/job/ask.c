#include "ask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>

#include "../../common/descriptor.h"
#include "../../common/sys.h"
#include "job.h"
#include "jobsocket.h"

#define SECOND_NS INT64_C(1000000000)
#define LIMIT_NS (60 * SECOND_NS) /* for one question and its answer */
#define COPY_LIMIT_NS                                                                              \
    (15 * LIMIT_NS) /* if the daemon may have to copy or fetch a file before it answers */

enum { CONNECT_S = 20, PIECES = 3, LISTING_BYTES_MAX = 1 << 30, ERRNO_MAX = 4095 };

__thread uint32_t fan_output_behalf;

uint16_t fan_output_view(const struct fan_view *view)
{
    return (uint16_t)(view - fan_job.views);
}

/* Returns errnos that the rest of the library handles; any other error of the socket means that
 * there is no daemon. */
static int no_daemon(long rc)
{
    return rc == -EMFILE || rc == -ENFILE ? (int)rc : -EIO;
}

static int open_link(int64_t until_ns)
{
    struct timeval limit = {.tv_sec = CONNECT_S};
    int link = (int)FAN_SYS(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link < 0)
        return no_daemon(link);
    FAN_SYS(setsockopt, link, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    int rc = fan_job_connect(link, "outputs", until_ns);
    if (rc == 0)
        return link;
    fan_sys_close(link);
    return no_daemon(rc);
}

static int64_t limit_of(const struct fan_output_call *call)
{
    bool copies = call->request.op == FAN_OUTPUT_OPEN || call->request.op == FAN_OUTPUT_TRUNCATE;
    return copies ? COPY_LIMIT_NS : LIMIT_NS;
}

/* Removes `bytes` from the front of the pieces. */
static void advance(struct iovec pieces[PIECES], size_t bytes)
{
    for (unsigned i = 0; i < PIECES; i++) {
        size_t gone = bytes < pieces[i].iov_len ? bytes : pieces[i].iov_len;
        pieces[i].iov_base = (char *)pieces[i].iov_base + gone;
        pieces[i].iov_len -= gone;
        bytes -= gone;
    }
}

static int send_all(int link, struct iovec pieces[PIECES], size_t bytes, int64_t until_ns)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = PIECES};
    while (bytes > 0) {
        long put = FAN_SYS(sendmsg, link, &message, MSG_NOSIGNAL);
        if (fan_interrupted(put, until_ns))
            continue;
        if (put <= 0)
            return -EIO;
        advance(pieces, (size_t)put);
        bytes -= (size_t)put;
    }
    return 0;
}

static int send_request(int link, const struct fan_output_call *call, int64_t until_ns)
{
    struct fan_output_request request = call->request;
    request.magic = FAN_OUTPUT_MAGIC;
    request.path_bytes = call->path != NULL ? (uint32_t)(strlen(call->path) - call->cut_bytes) : 0;
    request.other_bytes = call->other != NULL ? (uint32_t)strlen(call->other) : 0;
    if (request.path_bytes >= FAN_OUTPUT_PATH_MAX || request.other_bytes >= FAN_OUTPUT_PATH_MAX)
        return -ENAMETOOLONG;
    struct iovec pieces[PIECES] = {{&request, sizeof(request)},
                                   {(void *)call->path, request.path_bytes},
                                   {(void *)call->other, request.other_bytes}};
    size_t bytes = sizeof(request) + request.path_bytes + request.other_bytes;
    return send_all(link, pieces, bytes, until_ns);
}

static bool readable(int link, int64_t until_ns)
{
    for (;;) {
        struct pollfd polled = {.fd = link, .events = POLLIN};
        int64_t left_ns = until_ns - fan_clock_ns();
        struct timespec left = {left_ns / SECOND_NS, left_ns % SECOND_NS};
        long rc = left_ns > 0 ? FAN_SYS(ppoll, &polled, 1, &left, NULL, sizeof(uint64_t)) : 0;
        if (rc != -EINTR)
            return rc == 1;
    }
}

static int receive(int link, void *to, size_t bytes, int64_t until_ns)
{
    char *at = to;
    while (bytes > 0) {
        if (!readable(link, until_ns))
            return -EIO;
        long got = FAN_SYS(recvfrom, link, at, bytes, MSG_DONTWAIT, NULL, NULL);
        if (got == -EINTR || got == -EAGAIN)
            continue;
        if (got <= 0)
            return -EIO;
        at += got;
        bytes -= (size_t)got;
    }
    return 0;
}

/* Receives the first bytes of an answer, with the descriptor. Returns how many, or -errno. */
static long receive_first(int link, struct fan_output_answer *answer, int64_t until_ns)
{
    long got = -EAGAIN;
    int fd = -1;
    while ((got == -EINTR || got == -EAGAIN) && readable(link, until_ns))
        got = fan_fd_receive(link, answer, sizeof(*answer), &fd, MSG_DONTWAIT);
    answer->fd = fd; /* overwrites the received field of that name */
    return got > 0 ? got : -EIO;
}

static int receive_answer(int link, struct fan_output_answer *answer, int64_t until_ns)
{
    long first = receive_first(link, answer, until_ns);
    int fd = answer->fd, rc = first < 0 ? (int)first : 0;
    if (rc == 0)
        rc = receive(link, (char *)answer + first, sizeof(*answer) - (size_t)first, until_ns);
    answer->fd = fd;
    if (rc != 0 || answer->magic != FAN_OUTPUT_MAGIC || answer->error > ERRNO_MAX)
        return -EIO;
    return -(int)answer->error;
}

/* Sends a question and receives the head of its answer. Returns the connection, on which the text
 * follows; or -errno. */
static int begin(const struct fan_output_call *call, struct fan_output_answer *answer,
                 int64_t until_ns)
{
    int64_t start = fan_clock_ns();
    int link = open_link(until_ns);
    if (link < 0)
        return link;
    int rc = send_request(link, call, until_ns);
    answer->fd = -1;
    rc = rc == 0 ? receive_answer(link, answer, until_ns) : rc;
    fan_trace_stall(FAN_STALL_OUTPUT, call->request.view % FAN_JOB_MOUNTS_MAX, FAN_NOTE_NO_FILE,
                    fan_clock_ns() - start);
    if (rc != 0 && answer->fd >= 0)
        fan_sys_close(answer->fd);
    if (rc == 0)
        return link;
    fan_sys_close(link);
    return rc;
}

/* Receives the text, if it is wanted, and closes the connection. */
static int end(int link, size_t bytes, char *text, int64_t until_ns)
{
    int rc = bytes < FAN_OUTPUT_PATH_MAX ? 0 : -EIO;
    if (rc == 0 && text != NULL)
        rc = receive(link, text, bytes, until_ns);
    fan_sys_close(link);
    if (rc == 0 && text != NULL)
        text[bytes] = '\0';
    return rc;
}

int fan_output_ask(const struct fan_output_call *call, struct fan_output_answer *answer,
                   char text[FAN_OUTPUT_PATH_MAX])
{
    int64_t until_ns = fan_clock_ns() + limit_of(call);
    int link = begin(call, answer, until_ns);
    return link < 0 ? link : end(link, answer->text_bytes, text, until_ns);
}

int fan_output_ask_way(const struct fan_output_call *call, struct fan_output_answer *answer,
                       char text[FAN_OUTPUT_PATH_MAX])
{
    int64_t until_ns = fan_clock_ns() + limit_of(call);
    int link = begin(call, answer, until_ns);
    if (link < 0)
        return link;
    bool wanted = answer->where == FAN_OUTPUT_ELSEWHERE;
    return end(link, answer->text_bytes, wanted ? text : NULL, until_ns);
}

static int receive_listing(int link, uint64_t bytes, struct fan_output_listing *listing,
                           int64_t until_ns)
{
    if (bytes == 0 || bytes > LISTING_BYTES_MAX)
        return bytes == 0 ? 0 : -EIO;
    size_t room = (bytes + 4095) / 4096 * 4096;
    char *text = fan_sys_memory(room);
    if (text == NULL)
        return -ENOMEM;
    *listing = (struct fan_output_listing){text, bytes, room};
    int rc = receive(link, listing->text, bytes, until_ns);
    if (rc != 0)
        fan_output_list_end(listing);
    return rc;
}

int fan_output_list(const struct fan_view *view, const char *path,
                    struct fan_output_listing *listing)
{
    struct fan_output_call call = {
        .request = {.op = FAN_OUTPUT_LIST, .view = fan_output_view(view)}, .path = path};
    struct fan_output_answer answer;
    *listing = (struct fan_output_listing){0};
    int64_t until_ns = fan_clock_ns() + LIMIT_NS;
    int link = begin(&call, &answer, until_ns);
    if (link < 0)
        return link;
    int rc = receive_listing(link, answer.text_bytes, listing, until_ns);
    fan_sys_close(link);
    return rc;
}

const struct fan_output_name *fan_output_next(const struct fan_output_listing *listing, size_t at,
                                              size_t *next)
{
    const struct fan_output_name *entry;
    if (at > listing->bytes || listing->bytes - at < sizeof(*entry))
        return NULL;
    entry = (const void *)(listing->text + at);
    size_t room = listing->bytes - at - sizeof(*entry);
    size_t padded = ((size_t)entry->name_bytes + 7) / 8 * 8;
    if (entry->name_bytes == 0 || entry->name_bytes > 255 || padded > room)
        return NULL;
    *next = at + sizeof(*entry) + padded;
    return entry;
}

void fan_output_list_end(struct fan_output_listing *listing)
{
    if (listing->text != NULL)
        fan_sys_munmap(listing->text, listing->room);
    *listing = (struct fan_output_listing){0};
}
