#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "../files/filetable.h"
#include "../job/job.h"
#include "../job/packs.h"
#include "../machine/limits.h"
#include "../machine/maps.h"
#include "../machine/page.h"
#include "content_io.h"
#include "in_place.h"
#include "map_server.h"
#include "realcopy.h"

#ifndef F_SEAL_FUTURE_WRITE
#    define F_SEAL_FUTURE_WRITE 0x0010 /* some headers lack it */
#endif

/* Returns whether the file's bytes are mapped from a pack of this rank. */
static bool is_own(const struct fan_file *file)
{
    const struct fan_pack_view *pack = &file->dataset->packs[file->record->pack];
    const char *base = file->data != NULL ? file->data - file->record->offset : NULL;
    return base != NULL && (base == atomic_load(&pack->base) || base == atomic_load(&pack->sparse));
}

/* Maps an empty memory file over [at, at + bytes), so that touching it raises SIGBUS, like pages
 * beyond the end of a file. */
static int map_beyond_end(char *at, size_t bytes, int prot, int flags)
{
    if (bytes == 0)
        return 0;
    int fd = (int)FAN_SYS(memfd_create, FAN_MAP_COPY, MFD_CLOEXEC);
    if (fd < 0)
        return fd;
    long rc = fan_sys_mmap(at, bytes, prot, (flags & (MAP_SHARED | MAP_PRIVATE)) | MAP_FIXED, fd,
                           0);
    fan_sys_close(fd);
    return fan_sys_failed(rc) ? (int)rc : 0;
}

/* Opens the pack of this node in which a file's content is mapped: this rank's or a neighbour's. */
static int open_pack(const struct fan_file *file)
{
    uint32_t pack = file->record->pack;
    if (!is_own(file))
        return fan_pack_open_neighbour(file->view, file->dataset, pack, file->id);
    int fd = fan_pack_open_here(file->view, file->dataset, pack);
    return fd < 0 ? (int)fan_count_error(-EIO) : fd;
}

/* Maps a file `fd` that has the input's bytes from `start` on, and closes it. */
static long map_fd(int fd, void *at, size_t bytes, int prot, int flags, int64_t start,
                   size_t inside)
{
    if (fd < 0)
        return fd;
    long got = fan_sys_mmap(at, bytes, prot, flags, fd, start);
    fan_sys_close(fd);
    if (!fan_sys_failed(got))
        FAN_COUNT(mapped_bytes, inside < bytes ? inside : bytes);
    return got;
}

/* Maps a pack of this node. Returns -ENOENT if the file cannot be mapped there. */
static long map_pack(const struct fan_file *file, void *at, size_t bytes, int prot, int flags,
                     int64_t offset, size_t inside)
{
    if (file->data == NULL || !fan_lies_in_pages(file))
        return -ENOENT;
    int64_t start = (int64_t)file->record->offset + offset;
    long got = map_fd(open_pack(file), at, bytes, prot, flags, start, inside);
    return fan_sys_failed(got) && !is_own(file) ? -ENOENT : got;
}

/* Maps the file on the map server's mount, which ends where the input ends. Returns -ENOENT if
 * there is none, or it may not be mapped so. */
static long map_served(const struct fan_file *file, void *at, size_t bytes, int prot, int flags,
                       int64_t offset, size_t inside)
{
    long got = map_fd(fan_map_server_open(file), at, bytes, prot, flags, offset, inside);
    return fan_sys_failed(got) ? -ENOENT : got;
}

/* Maps the file on the shared file system. Returns -ENOENT if it cannot be mapped as the file; a
 * file system may refuse that, or to execute what is mapped. */
static long map_in_place(const struct fan_file *file, void *at, size_t bytes, int prot, int flags,
                         int64_t offset, size_t inside)
{
    uint64_t start = 0;
    int fd = fan_in_place_open(file, &start);
    long got = map_fd(fd, at, bytes, prot, flags, (int64_t)start + offset, inside);
    return fan_sys_failed(got) ? -ENOENT : got;
}

/* Reads `bytes` of the file, from `offset` on, into memory. Returns 0 or -errno. */
static int copy_in(struct fan_file *file, char *to, size_t bytes, int64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t part = fan_content_pread(file, to + done, bytes - done, offset + (int64_t)done);
        if (part <= 0)
            return part < 0 ? (int)part : -EIO;
        done += (size_t)part;
    }
    return 0;
}

/* Maps a memory file with exactly the file's bytes: pages that the program drops (MADV_DONTNEED)
 * come back, and pages beyond the end raise SIGBUS, as for a real file. */
static long map_copy(struct fan_file *file, void *at, size_t bytes, int prot, int flags,
                     int64_t offset, size_t inside)
{
    int fd = fan_real_part(file, offset, inside);
    if (fd < 0)
        return fd;
    fan_sys_fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE); /* mprotect(2) must not make it writable */
    long got = fan_sys_mmap(at, bytes, prot, flags, fd, 0);
    fan_sys_close(fd);
    return got;
}

/* Maps anonymous pages with the file's bytes, if RLIMIT_FSIZE allows no memory file of that size:
 * making one would raise SIGXFSZ. */
static long map_anonymous(struct fan_file *file, void *at, size_t bytes, int prot, int flags,
                          int64_t offset, size_t inside)
{
    int keep = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_LOCKED | MAP_NORESERVE);
#ifdef MAP_32BIT /* only on x86 */
    keep |= flags & MAP_32BIT;
#endif
    keep |= (flags & MAP_TYPE) == MAP_PRIVATE ? MAP_PRIVATE : MAP_SHARED; /* for files only */
    long got = fan_sys_mmap(at, bytes, PROT_READ | PROT_WRITE, keep | MAP_ANONYMOUS, -1, 0);
    if (fan_sys_failed(got))
        return got;
    int rc = copy_in(file, (char *)got, inside, offset);
    if (rc == 0)
        rc = (int)FAN_SYS(mprotect, got, bytes, prot);
    if (rc != 0)
        fan_sys_munmap((void *)got, bytes);
    return rc != 0 ? rc : got;
}

static int check(const struct fan_file *file, size_t bytes, int prot, int flags, int64_t offset)
{
    bool shared = (flags & MAP_TYPE) == MAP_SHARED || (flags & MAP_TYPE) == MAP_SHARED_VALIDATE;
    if (file->kind != FAN_FILE_REGULAR)
        return file->kind == FAN_FILE_DIRECTORY ? -ENODEV : -EBADF;
    if (bytes == 0 || offset % (int64_t)fan_page_bytes() != 0)
        return -EINVAL;
    if (offset < 0)
        return -EOVERFLOW;
    if ((flags & MAP_TYPE) == MAP_SHARED_VALIDATE && (flags & MAP_SYNC))
        return -EOPNOTSUPP;
    if (shared && (prot & PROT_WRITE))
        return -EACCES;
    return shared || (flags & MAP_TYPE) == MAP_PRIVATE ? 0 : -EINVAL;
}

/* Whether this process has mapped an input, or inherited such a mapping by fork. */
static atomic_bool mapped_any;

long fan_mmap(struct fan_file *file, void *at, size_t bytes, int prot, int flags, int64_t offset)
{
    int rc = check(file, bytes, prot, flags, offset);
    if (rc != 0)
        return rc;
    atomic_store_explicit(&mapped_any, true, memory_order_relaxed);
    uint64_t size = file->record->logical_size;
    uint64_t inside = (uint64_t)offset < size ? size - (uint64_t)offset : 0;
    if (inside > fan_page_up(bytes))
        inside = fan_page_up(bytes); /* the request ends within a page, the mapping at its end */
    long got = inside > 0 ? map_pack(file, at, bytes, prot, flags, offset, inside) : -ENOENT;
    bool elsewhere = inside > 0 && !is_own(file), whole = false;
    if (got == -ENOENT && elsewhere) {
        got = map_served(file, at, bytes, prot, flags, offset, inside);
        whole = got != -ENOENT; /* it ends where the file ends */
    }
    if (got == -ENOENT && elsewhere)
        got = map_in_place(file, at, bytes, prot, flags, offset, inside);
    if (got == -ENOENT) {
        whole = fan_file_limit_allows(inside);
        got = whole ? map_copy(file, at, bytes, prot, flags, offset, inside)
                    : map_anonymous(file, at, bytes, prot, flags, offset, inside);
    }
    if (fan_sys_failed(got))
        return got;
    uint64_t end = fan_page_up(inside), all = fan_page_up(bytes);
    if (!whole)
        rc = map_beyond_end((char *)got + end, all - end, prot, flags);
    if (rc != 0) {
        fan_sys_munmap((void *)got, all);
        return rc;
    }
    return got;
}

static bool is_ours(const char *path)
{
    static const char copy[] = "/memfd:" FAN_MAP_COPY;
    bool ours = strncmp(path, copy, sizeof(copy) - 1) == 0;
    for (unsigned i = 0; i < fan_job.view_count && !ours; i++)
        ours = fan_is_pack_in(path, &fan_job.views[i].staged_dir) ||
               fan_is_pack_in(path, &fan_job.views[i].dataset_dir);
    return ours || fan_is_pack_of_neighbour(path);
}

bool fan_mapped_at(const void *address)
{
    char line[FAN_MAPS_LINE_BYTES];
    bool any = atomic_load_explicit(&mapped_any, memory_order_relaxed);
    const char *path = any ? fan_maps_path(address, line) : NULL;
    return path != NULL && is_ours(path);
}

bool fan_mapped_grows(const void *address, size_t old_bytes, size_t bytes)
{
    return fan_page_up(bytes) > fan_page_up(old_bytes) && fan_mapped_at(address);
}
