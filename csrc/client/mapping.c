#include "mapping.h"

#include <errno.h>
#include <sys/mman.h>

#include "../common/sys.h"
#include "../format/pack_format.h"
#include "content_io.h"
#include "filetable.h"

enum { PAGE = 4096 };

static uint64_t page_up(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static bool lies_in_pages(const struct fan_file *file)
{
    const struct fan_record *record = file->record;
    return record->codec == FAN_CODEC_STORE && file->data != NULL && record->offset % PAGE == 0 &&
           record->logical_size >= FAN_MAP_THRESHOLD_BYTES;
}

/* An empty memory file over [at, at + bytes): touching it raises SIGBUS, as pages beyond the end
 * of a file do. */
static int map_beyond_end(char *at, size_t bytes, int prot, int flags)
{
    if (bytes == 0)
        return 0;
    int fd = (int)FAN_SYS(memfd_create, "fanstore-end", MFD_CLOEXEC);
    if (fd < 0)
        return fd;
    long rc = fan_sys_mmap(at, bytes, prot, (flags & (MAP_SHARED | MAP_PRIVATE)) | MAP_FIXED, fd,
                           0);
    fan_sys_close(fd);
    return fan_sys_failed(rc) ? (int)rc : 0;
}

static long map_pack(struct fan_file *file, void *at, size_t bytes, int prot, int flags,
                     int64_t offset)
{
    int fd = fan_pack_open(file->view, file->record->pack, FAN_PACK_STAGED);
    if (fd < 0)
        return -EIO;
    long got = fan_sys_mmap(at, bytes, prot, flags, fd, (int64_t)file->record->offset + offset);
    fan_sys_close(fd);
    return got;
}

/* Anonymous pages with the file's bytes in them. */
static long map_copy(struct fan_file *file, void *at, size_t bytes, int prot, int flags,
                     int64_t offset, size_t inside)
{
    int keep = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_LOCKED | MAP_POPULATE | MAP_32BIT |
                        MAP_NORESERVE);
    keep |= (flags & MAP_TYPE) == MAP_PRIVATE ? MAP_PRIVATE : MAP_SHARED; /* VALIDATE is a file's */
    long got = fan_sys_mmap(at, bytes, PROT_READ | PROT_WRITE, keep | MAP_ANONYMOUS, -1, 0);
    if (fan_sys_failed(got))
        return got;
    char *to = (char *)got;
    for (size_t done = 0; done < inside;) {
        ssize_t part = fan_content_pread(file, to + done, inside - done, offset + (int64_t)done);
        if (part <= 0) {
            fan_sys_munmap(to, bytes);
            return part < 0 ? part : -EIO;
        }
        done += (size_t)part;
    }
    FAN_SYS(mprotect, to, bytes, prot);
    return got;
}

static int check(const struct fan_file *file, size_t bytes, int prot, int flags, int64_t offset)
{
    bool shared = (flags & MAP_TYPE) == MAP_SHARED || (flags & MAP_TYPE) == MAP_SHARED_VALIDATE;
    if (file->kind != FAN_FILE_REGULAR)
        return file->kind == FAN_FILE_DIRECTORY ? -ENODEV : -EBADF;
    if (bytes == 0 || offset < 0 || offset % PAGE != 0)
        return -EINVAL;
    if ((flags & MAP_TYPE) == MAP_SHARED_VALIDATE && (flags & MAP_SYNC))
        return -EOPNOTSUPP;
    if (shared && (prot & PROT_WRITE))
        return -EACCES;
    return shared || (flags & MAP_TYPE) == MAP_PRIVATE ? 0 : -EINVAL;
}

long fan_mmap(struct fan_file *file, void *at, size_t bytes, int prot, int flags, int64_t offset)
{
    int rc = check(file, bytes, prot, flags, offset);
    if (rc != 0)
        return rc;
    uint64_t size = file->record->logical_size;
    uint64_t inside = (uint64_t)offset < size ? size - (uint64_t)offset : 0;
    if (inside > bytes)
        inside = bytes;
    bool pages = lies_in_pages(file) && inside > 0;
    long got = pages ? map_pack(file, at, bytes, prot, flags, offset)
                     : map_copy(file, at, bytes, prot, flags, offset, inside);
    if (fan_sys_failed(got))
        return got;
    uint64_t end = page_up(inside), all = page_up(bytes);
    rc = map_beyond_end((char *)got + end, all - end, prot, flags);
    if (rc != 0) {
        fan_sys_munmap((void *)got, all);
        return rc;
    }
    FAN_COUNT(mapped_bytes, inside);
    return got;
}
