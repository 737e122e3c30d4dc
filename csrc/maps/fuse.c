#include "fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    THREADS = 64,             /* one waits for each page that has not come yet */
    REQUEST_BYTES = 16 << 10, /* the kernel refuses to write to less than 8 KiB */
    WRITE_BYTES = 4096,       /* the least; nothing is written */
    /* The kernel reads as much as this around each page that is touched at random. */
    READAHEAD_BYTES = 64 << 10,
    REQUESTS_AT_ONCE = 64,
    FOREVER_S = 1 << 30, /* inputs never change */
    FIRST_NODE = FUSE_ROOT_ID + 1
};

/* A request of the kernel. */
struct request {
    struct fan_fuse *fuse;
    const struct fuse_in_header *head;
    const void *body;
    char *room; /* for FAN_FUSE_READ_BYTES_MAX bytes of a file */
};

static void reply(const struct request *request, int error, const void *body, size_t bytes)
{
    struct fuse_out_header head = {
        .len = (uint32_t)(sizeof(head) + bytes), .error = error, .unique = request->head->unique};
    struct iovec pieces[] = {{&head, sizeof(head)}, {(void *)body, bytes}};
    /* It fails if the program that waits for this was killed: nobody wants the answer then. */
    if (writev(request->fuse->device, pieces, bytes > 0 ? 2 : 1) < 0)
        return;
}

/* Returns an opened input, or NULL if `number` is none. */
static const struct fan_fuse_file *file_of(struct fan_fuse *fuse, uint64_t number)
{
    /* acquire: pairs with the store in fan_fuse_add, so that the entry is filled in */
    unsigned count = atomic_load_explicit(&fuse->count, memory_order_acquire);
    return number < count ? &fuse->files[number] : NULL;
}

static bool set_attr(struct fan_fuse *fuse, uint64_t node, struct fuse_attr *attr)
{
    const struct fan_fuse_file *file = file_of(fuse, node - FIRST_NODE);
    attr->ino = node;
    attr->uid = getuid();
    attr->gid = getgid();
    attr->nlink = 1;
    attr->mode = node == FUSE_ROOT_ID ? S_IFDIR | 0500 : S_IFREG | 0500;
    if (file == NULL)
        return node == FUSE_ROOT_ID;
    attr->size = file->bytes;
    attr->blocks = (file->bytes + 511) / 512;
    attr->blksize = 4096;
    return true;
}

static void answer_init(const struct request *request)
{
    const struct fuse_init_in *in = request->body;
    struct fuse_init_out out = {
        .major = FUSE_KERNEL_VERSION,
        .minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor : FUSE_KERNEL_MINOR_VERSION,
        .max_readahead = in->max_readahead < READAHEAD_BYTES ? in->max_readahead : READAHEAD_BYTES,
        .flags = in->flags & (FUSE_ASYNC_READ | FUSE_NO_OPEN_SUPPORT | FUSE_MAX_PAGES),
        .max_background = REQUESTS_AT_ONCE,
        .congestion_threshold = REQUESTS_AT_ONCE,
        .max_write = WRITE_BYTES,
        .time_gran = 1,
        .max_pages = FAN_FUSE_READ_BYTES_MAX / 4096,
    };
    reply(request, 0, &out, sizeof(out));
}

static void answer_lookup(const struct request *request)
{
    char *end;
    uint64_t number = strtoull(request->body, &end, 10);
    struct fuse_entry_out out = {
        .nodeid = number + FIRST_NODE, .entry_valid = FOREVER_S, .attr_valid = FOREVER_S};
    bool found = *end == '\0' && file_of(request->fuse, number) != NULL &&
                 set_attr(request->fuse, out.nodeid, &out.attr);
    reply(request, found ? 0 : -ENOENT, &out, found ? sizeof(out) : 0);
}

static void answer_getattr(const struct request *request)
{
    struct fuse_attr_out out = {.attr_valid = FOREVER_S};
    bool found = set_attr(request->fuse, request->head->nodeid, &out.attr);
    reply(request, found ? 0 : -ENOENT, &out, found ? sizeof(out) : 0);
}

/* Reads until all is read, or the file ends. Returns the number of bytes or -errno. */
static ssize_t read_all(int fd, char *to, size_t bytes, uint64_t offset)
{
    for (size_t done = 0;;) {
        ssize_t got = pread(fd, to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno != EINTR)
            return -errno;
        done += got > 0 ? (size_t)got : 0;
        if (got == 0 || done == bytes)
            return (ssize_t)done;
    }
}

static void answer_read(const struct request *request)
{
    const struct fuse_read_in *in = request->body;
    const struct fan_fuse_file *file = file_of(request->fuse, request->head->nodeid - FIRST_NODE);
    size_t bytes = in->size < FAN_FUSE_READ_BYTES_MAX ? in->size : FAN_FUSE_READ_BYTES_MAX;
    if (request->fuse->reads_for != NULL)
        request->fuse->reads_for(request->head->pid); /* the kernel's name for a tid */
    ssize_t got = file != NULL ? read_all(file->fd, request->room, bytes, in->offset) : -ENOENT;
    reply(request, got < 0 ? (int)got : 0, request->room, got < 0 ? 0 : (size_t)got);
}

static void answer(const struct request *request)
{
    switch (request->head->opcode) {
    case FUSE_INIT:
        answer_init(request);
        break;
    case FUSE_LOOKUP:
        answer_lookup(request);
        break;
    case FUSE_GETATTR:
        answer_getattr(request);
        break;
    case FUSE_READ:
        answer_read(request);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET: /* these two have no answer */
        break;
    default: /* The kernel then does not ask for an open, a flush or an interrupt again. */
        reply(request, -ENOSYS, NULL, 0);
    }
}

static void *answer_all(void *given)
{
    struct fan_fuse *fuse = given;
    char *room = malloc(FAN_FUSE_READ_BYTES_MAX);
    _Alignas(uint64_t) char bytes[REQUEST_BYTES];
    while (room != NULL) {
        ssize_t got = read(fuse->device, bytes, sizeof(bytes));
        if (got < 0 && (errno == EINTR || errno == ENOENT)) /* ENOENT: it was withdrawn */
            continue;
        if (got < (ssize_t)sizeof(struct fuse_in_header))
            break;
        const struct fuse_in_header *head = (const void *)bytes;
        answer(&(struct request){fuse, head, head + 1, room});
    }
    _exit(0);
}

int fan_fuse_start(struct fan_fuse *fuse)
{
    int rc = 0;
    for (unsigned i = 0; i < THREADS && rc == 0; i++) {
        pthread_t thread;
        rc = -pthread_create(&thread, NULL, answer_all, fuse);
    }
    return rc;
}

int fan_fuse_add(struct fan_fuse *fuse, const char *path)
{
    struct stat st;
    unsigned number = 0, count = atomic_load_explicit(&fuse->count, memory_order_relaxed);
    if (lstat(path, &st) != 0)
        return -errno;
    while (number < count &&
           (fuse->files[number].inode != st.st_ino || fuse->files[number].device != st.st_dev))
        number++;
    if (number < count)
        return (int)number;
    if (!S_ISREG(st.st_mode) || number == fuse->most)
        return S_ISREG(st.st_mode) ? -ENFILE : -EINVAL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    fuse->files[number] = (struct fan_fuse_file){fd, st.st_dev, st.st_ino, (uint64_t)st.st_size};
    /* release: a thread that sees the count sees the entry */
    atomic_store_explicit(&fuse->count, number + 1, memory_order_release);
    return (int)number;
}
