/* The calls of the protocol: each is done at once on the directory that is shown, and answered when
 * it is due. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "slow.h"

enum { WRITE_MAX = 1 << 20, REQUEST_MAX = WRITE_MAX + 4096, NO_REPLY = -0x10000 };

/* A request, with room for its answer. */
struct call {
    const struct fuse_in_header *in;
    const void *body; /* after the header */
    void *out;
    struct node *node;
    const char *name; /* of the file in `node` that the call is about, in the body; else NULL */
    const char *path; /* of that file, else of the node */
    struct stream *stream; /* set by calls that transfer content, with its bytes */
    size_t bytes;
};

/* An open file or directory; the kernel knows it by its address. */
struct handle {
    int fd;
    DIR *dir;
    struct stream stream;
};

struct timespec cache;
bool is_direct;

/* In flags2, of kernels from 6.6 on and not of all headers: shared mappings of direct files. */
enum { DIRECT_IO_ALLOW_MMAP = 1 << 4 };

static struct handle *handle_of(uint64_t fh)
{
    return (struct handle *)(uintptr_t)fh;
}

/* Names and attributes */

static void fill(struct fuse_attr *to, const struct stat *st)
{
    *to = (struct fuse_attr){
        st->st_ino,          st->st_size,        st->st_blocks,       st->st_atim.tv_sec,
        st->st_mtim.tv_sec,  st->st_ctim.tv_sec, st->st_atim.tv_nsec, st->st_mtim.tv_nsec,
        st->st_ctim.tv_nsec, st->st_mode,        st->st_nlink,        st->st_uid,
        st->st_gid,          st->st_rdev,        st->st_blksize,      0};
}

static long do_getattr(struct call *call)
{
    struct fuse_attr_out *out = call->out;
    struct stat st;
    if (fstatat(AT_FDCWD, call->path, &st, flags_of(call->node)) != 0)
        return -errno;
    *out = (struct fuse_attr_out){.attr_valid = cache.tv_sec, .attr_valid_nsec = cache.tv_nsec};
    fill(&out->attr, &st);
    return sizeof(*out);
}

/* A name that is not there has node 0, which the kernel remembers as it does others. */
static long do_lookup(struct call *call)
{
    struct fuse_entry_out *out = call->out;
    struct stat st = {0};
    bool there = lstat(call->path, &st) == 0;
    if (!there && errno != ENOENT)
        return -errno;
    uint64_t id = there ? node_id(node_find(call->node, call->name)) : 0;
    *out = (struct fuse_entry_out){.nodeid = id,
                                   .entry_valid = cache.tv_sec,
                                   .attr_valid = cache.tv_sec,
                                   .entry_valid_nsec = cache.tv_nsec,
                                   .attr_valid_nsec = cache.tv_nsec};
    fill(&out->attr, &st);
    return sizeof(*out);
}

static long do_forget(struct call *call)
{
    const struct fuse_forget_in *forget = call->body;
    node_forget(call->node, forget->nlookup);
    return NO_REPLY;
}

static long do_batch_forget(struct call *call)
{
    const struct fuse_batch_forget_in *batch = call->body;
    const struct fuse_forget_one *each = (const void *)(batch + 1);
    for (uint32_t n = 0; n < batch->count; n++)
        node_forget(node_of(each[n].nodeid), each[n].nlookup);
    return NO_REPLY;
}

static long do_readlink(struct call *call)
{
    ssize_t bytes = readlink(call->path, call->out, PATH_MAX);
    return bytes < 0 ? -errno : bytes;
}

static long do_statfs(struct call *call)
{
    struct fuse_kstatfs *out = &((struct fuse_statfs_out *)call->out)->st;
    struct statvfs st;
    if (statvfs(call->path, &st) != 0)
        return -errno;
    *out = (struct fuse_kstatfs){.blocks = st.f_blocks,
                                 .bfree = st.f_bfree,
                                 .bavail = st.f_bavail,
                                 .files = st.f_files,
                                 .ffree = st.f_ffree,
                                 .bsize = st.f_bsize,
                                 .namelen = st.f_namemax,
                                 .frsize = st.f_frsize};
    return sizeof(*out);
}

/* Content */

static long answer_open(void *to, int fd, DIR *dir, uint32_t flags)
{
    struct handle *handle = needed(calloc(1, sizeof(*handle)));
    *handle = (struct handle){.fd = fd, .dir = dir};
    *(struct fuse_open_out *)to = (struct fuse_open_out){(uintptr_t)handle, flags, 0};
    return sizeof(struct fuse_open_out);
}

/* As with NFS: what the kernel has of a file is good while its time and size are the same. */
static uint32_t content_flags(struct call *call, int fd)
{
    struct stat st;
    if (is_direct)
        return FOPEN_DIRECT_IO;
    return fstat(fd, &st) == 0 && node_unchanged(call->node, &st) ? FOPEN_KEEP_CACHE : 0;
}

static long do_open(struct call *call)
{
    const struct fuse_open_in *open_in = call->body;
    int fd = open(call->path, ((int)open_in->flags & O_ACCMODE) | O_CLOEXEC);
    return fd < 0 ? -errno : answer_open(call->out, fd, NULL, content_flags(call, fd));
}

static long do_opendir(struct call *call)
{
    DIR *dir = opendir(call->path);
    return dir == NULL ? -errno : answer_open(call->out, -1, dir, 0);
}

static long do_read(struct call *call)
{
    const struct fuse_read_in *read_in = call->body;
    struct handle *handle = handle_of(read_in->fh);
    ssize_t bytes = pread(handle->fd, call->out, read_in->size, (off_t)read_in->offset);
    if (bytes < 0)
        return -errno;
    call->stream = &handle->stream;
    call->bytes = (size_t)bytes;
    return bytes;
}

/* Writes an entry; returns its bytes, which are more than `room` if it does not fit. */
static size_t put_entry(void *to, size_t room, const struct dirent *entry)
{
    struct fuse_dirent *out = to;
    size_t name_bytes = strlen(entry->d_name);
    size_t bytes = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + name_bytes);
    if (bytes > room)
        return bytes;
    memset(to, 0, bytes);
    *out = (struct fuse_dirent){entry->d_ino, entry->d_off, name_bytes, entry->d_type};
    memcpy(out->name, entry->d_name, name_bytes);
    return bytes;
}

static long do_readdir(struct call *call)
{
    const struct fuse_read_in *read_in = call->body;
    DIR *dir = handle_of(read_in->fh)->dir;
    size_t bytes = 0;
    const struct dirent *entry;
    seekdir(dir, (long)read_in->offset);
    for (errno = 0; (entry = readdir(dir)) != NULL;) {
        size_t added = put_entry((char *)call->out + bytes, read_in->size - bytes, entry);
        if (added > read_in->size - bytes)
            break;
        bytes += added;
    }
    call->bytes = bytes;
    return entry == NULL && errno != 0 && bytes == 0 ? -errno : (long)bytes;
}

static long do_write(struct call *call)
{
    const struct fuse_write_in *write_in = call->body;
    struct handle *handle = handle_of(write_in->fh);
    ssize_t bytes = pwrite(handle->fd, write_in + 1, write_in->size, (off_t)write_in->offset);
    if (bytes < 0)
        return -errno;
    call->stream = &handle->stream;
    call->bytes = (size_t)bytes;
    *(struct fuse_write_out *)call->out = (struct fuse_write_out){(uint32_t)bytes, 0};
    return sizeof(struct fuse_write_out);
}

static long do_release(struct call *call)
{
    const struct fuse_release_in *release = call->body;
    struct handle *handle = handle_of(release->fh);
    if (handle->dir != NULL)
        closedir(handle->dir);
    else
        close(handle->fd);
    free(handle);
    return 0;
}

/* Changes */

/* Answers with a file that was just made, with the result of the call. It belongs to the caller. */
static long answer_new(struct call *call, int rc)
{
    if (rc < 0)
        return -errno;
    if (geteuid() == 0)
        (void)!lchown(call->path, call->in->uid, call->in->gid);
    return do_lookup(call);
}

static long do_create(struct call *call)
{
    const struct fuse_create_in *create = call->body;
    int flags = ((int)create->flags & (O_ACCMODE | O_EXCL)) | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(call->path, flags, create->mode);
    long bytes = answer_new(call, fd);
    if (bytes < 0 && fd >= 0)
        close(fd);
    if (bytes < 0)
        return bytes;
    uint32_t open_flags = is_direct ? FOPEN_DIRECT_IO : 0;
    return bytes + answer_open((char *)call->out + bytes, fd, NULL, open_flags);
}

static long do_mkdir(struct call *call)
{
    const struct fuse_mkdir_in *mkdir_in = call->body;
    return answer_new(call, mkdir(call->path, mkdir_in->mode));
}

static long do_symlink(struct call *call)
{
    return answer_new(call, symlink(call->name + strlen(call->name) + 1, call->path));
}

static long do_remove(struct call *call)
{
    return node_remove(call->node, call->body, call->in->opcode == FUSE_RMDIR);
}

static long do_rename(struct call *call)
{
    const struct fuse_rename_in *to = call->body;
    const char *name = (const char *)(to + 1), *new_name = name + strlen(name) + 1;
    return node_rename(call->node, name, node_of(to->newdir), new_name);
}

static struct timespec time_of(bool set, bool now, uint64_t s, uint32_t ns)
{
    return (struct timespec){(time_t)s, now ? UTIME_NOW : set ? (long)ns : UTIME_OMIT};
}

static int set_size(const char *path, const struct fuse_setattr_in *set)
{
    if (set->valid & FATTR_FH)
        return ftruncate(handle_of(set->fh)->fd, (off_t)set->size);
    return truncate(path, (off_t)set->size);
}

static long do_setattr(struct call *call)
{
    const struct fuse_setattr_in *set = call->body;
    uint32_t valid = set->valid;
    int rc = 0, flags = flags_of(call->node);
    if (valid & FATTR_SIZE)
        rc = set_size(call->path, set);
    if (rc == 0 && (valid & (FATTR_UID | FATTR_GID)))
        rc = fchownat(AT_FDCWD, call->path, valid & FATTR_UID ? set->uid : (uid_t)-1,
                      valid & FATTR_GID ? set->gid : (gid_t)-1, flags);
    if (rc == 0 && (valid & FATTR_MODE))
        rc = chmod(call->path, set->mode & 07777);
    struct timespec times[] = {
        time_of(valid & FATTR_ATIME, valid & FATTR_ATIME_NOW, set->atime, set->atimensec),
        time_of(valid & FATTR_MTIME, valid & FATTR_MTIME_NOW, set->mtime, set->mtimensec)};
    if (rc == 0 && (valid & (FATTR_ATIME | FATTR_MTIME)))
        rc = utimensat(AT_FDCWD, call->path, times, flags);
    return rc != 0 ? -errno : do_getattr(call);
}

/* The protocol */

static long do_init(struct call *call)
{
    const struct fuse_init_in *init = call->body;
    uint32_t wanted = FUSE_ASYNC_READ | FUSE_PARALLEL_DIROPS | FUSE_BIG_WRITES | FUSE_MAX_PAGES |
                      FUSE_AUTO_INVAL_DATA | FUSE_INIT_EXT;
    struct fuse_init_out *out = call->out;
    *out = (struct fuse_init_out){.major = FUSE_KERNEL_VERSION,
                                  .minor = FUSE_KERNEL_MINOR_VERSION,
                                  .max_readahead = init->max_readahead,
                                  .flags = init->flags & wanted,
                                  .flags2 = is_direct ? DIRECT_IO_ALLOW_MMAP : 0,
                                  .max_background = 256,
                                  .congestion_threshold = 192,
                                  .max_write = WRITE_MAX,
                                  .time_gran = 1,
                                  .max_pages = WRITE_MAX / sysconf(_SC_PAGESIZE)};
    return sizeof(*out);
}

/* kind: KINDS for calls that a network file system would not wait for. name: how far in the body
 * the name is that the path is of, NODE: of the node, NO_PATH: it needs no path. Calls that are not
 * here are answered with ENOSYS, and the kernel does without them. */
enum { NODE = -1, NO_PATH = -2 };

static const struct row {
    long (*answer)(struct call *call);
    enum kind kind;
    int name;
} rows[] = {
    [FUSE_INIT] = {do_init, KINDS, NO_PATH},
    [FUSE_LOOKUP] = {do_lookup, LOOKUP, 0},
    [FUSE_FORGET] = {do_forget, KINDS, NO_PATH},
    [FUSE_BATCH_FORGET] = {do_batch_forget, KINDS, NO_PATH},
    [FUSE_GETATTR] = {do_getattr, STAT, NODE},
    [FUSE_STATFS] = {do_statfs, STAT, NODE},
    [FUSE_READLINK] = {do_readlink, READLINK, NODE},
    [FUSE_OPEN] = {do_open, OPEN, NODE},
    [FUSE_OPENDIR] = {do_opendir, OPEN, NODE},
    [FUSE_RELEASE] = {do_release, KINDS, NO_PATH},
    [FUSE_RELEASEDIR] = {do_release, KINDS, NO_PATH},
    [FUSE_READ] = {do_read, READ, NO_PATH},
    [FUSE_READDIR] = {do_readdir, READDIR, NO_PATH},
    [FUSE_WRITE] = {do_write, WRITE, NO_PATH},
    [FUSE_CREATE] = {do_create, OPEN, sizeof(struct fuse_create_in)},
    [FUSE_MKDIR] = {do_mkdir, CHANGE, sizeof(struct fuse_mkdir_in)},
    [FUSE_SYMLINK] = {do_symlink, CHANGE, 0},
    [FUSE_UNLINK] = {do_remove, CHANGE, NO_PATH},
    [FUSE_RMDIR] = {do_remove, CHANGE, NO_PATH},
    [FUSE_RENAME] = {do_rename, CHANGE, NO_PATH},
    [FUSE_SETATTR] = {do_setattr, CHANGE, NODE},
};

/* Does a call while no name changes. */
static long answer_by_path(const struct row *row, struct call *call)
{
    char path[PATH_MAX];
    call->path = path;
    call->name = row->name >= 0 ? (const char *)call->body + row->name : NULL;
    names_lock();
    long result = path_of(call->node, call->name, path) ? row->answer(call) : -ENAMETOOLONG;
    names_unlock();
    return result;
}

static long answer(struct call *call, uint64_t arrived_ns)
{
    uint32_t opcode = call->in->opcode;
    if (opcode >= sizeof(rows) / sizeof(*rows) || rows[opcode].answer == NULL)
        return -ENOSYS;
    const struct row *row = &rows[opcode];
    long result = row->name == NO_PATH ? row->answer(call) : answer_by_path(row, call);
    /* A client knows the size and does not ask at a file's end; the kernel does if it is direct. */
    bool is_at_end = row->kind == READ && result == 0;
    if (row->kind != KINDS && !is_at_end)
        pace(row->kind, call->stream, call->bytes, arrived_ns);
    return result;
}

static void reply(int connection, const struct call *call, long result)
{
    size_t bytes = result > 0 ? (size_t)result : 0;
    struct fuse_out_header head = {(uint32_t)(sizeof(head) + bytes), 0, call->in->unique};
    head.error = result < 0 ? (int32_t)result : 0;
    struct iovec parts[] = {{&head, sizeof(head)}, {call->out, bytes}};
    (void)!writev(connection, parts, 2); /* fails if the caller was killed and waits no more */
}

void *serve(void *connection)
{
    int fd = *(int *)connection;
    int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *buffer = mmap(NULL, 2 * REQUEST_MAX, access, flags, -1, 0);
    needed(buffer != MAP_FAILED ? buffer : NULL);
    struct call call = {.in = (void *)buffer, .out = buffer + REQUEST_MAX};
    call.body = call.in + 1;
    for (;;) {
        ssize_t got = read(fd, buffer, REQUEST_MAX);
        if (got < 0 && errno == ENODEV)
            _exit(0); /* somebody has unmounted it */
        if (got < (ssize_t)sizeof(*call.in))
            continue; /* such as EINTR, or ENOENT: the caller was killed meanwhile */
        call.node = node_of(call.in->nodeid);
        call.stream = NULL;
        call.bytes = 0;
        long result = answer(&call, now_ns());
        if (result != NO_REPLY)
            reply(fd, &call, result);
    }
}
