#include "stored.h"

#include <errno.h>

#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "../job/packs.h"
#include "remote.h"

/* pread until all is there: a short count means that the pack was cut off. */
static int pread_all(int fd, char *to, uint64_t offset, uint64_t bytes)
{
    while (bytes > 0) {
        long got = fan_sys_pread(fd, to, bytes, (int64_t)offset);
        if (got == -EINTR)
            continue;
        if (got <= 0)
            return got == -EFAULT ? -EFAULT : -EIO;
        to += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return 0;
}

static int read_pack(struct fan_file *file, enum fan_pack_copy copy, char *to, uint64_t offset,
                     uint64_t bytes)
{
    uint32_t pack = file->record->pack;
    int fd = fan_pack_fd(file->view, file->dataset, pack, copy);
    if (fd >= 0)
        return pread_all(fd, to, file->record->offset + offset, bytes);
    fd = fan_pack_open(file->view, pack, copy); /* more packs than descriptors are kept for */
    if (fd < 0)
        return -EIO;
    int rc = pread_all(fd, to, file->record->offset + offset, bytes);
    fan_sys_close(fd);
    return rc;
}

static int read_shared(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    int rc = read_pack(file, FAN_PACK_SHARED, to, offset, bytes);
    if (rc == 0) {
        FAN_COUNT(shared_reads, 1);
        FAN_COUNT(shared_bytes, bytes);
    }
    return rc;
}

/* Of a file that is damaged for this rank: another may have a sound copy. */
static int read_elsewhere(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    int rc = fan_job.world_size > 1 ? fan_remote_read(file, to, offset, bytes) : -EIO;
    return rc == -EREMOTEIO ? -EIO : rc;
}

/* Through the node daemon, and where that cannot be, by this process. */
static int read_remote(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    int rc = fan_remote_read(file, to, offset, bytes);
    return rc == -EREMOTEIO ? read_shared(file, to, offset, bytes) : rc;
}

/* Of a file that was not here when it was opened, and may be by now. */
static int read_partial(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    const char *base =
        fan_pack_map_partial(file->view, file->dataset, file->record->pack, file->id);
    if (base != NULL)
        return fan_copy(to, base + file->record->offset + offset, bytes);
    return read_remote(file, to, offset, bytes);
}

static int read_unmapped(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    if (fan_view_damaged(file->view, file->record->pack, file->id))
        return read_elsewhere(file, to, offset, bytes);
    switch (fan_view_place(file->view, file->record->pack)) {
    case FAN_PLACE_STAGED:
        return read_pack(file, FAN_PACK_STAGED, to, offset, bytes);
    case FAN_PLACE_IN_PLACE:
        return read_shared(file, to, offset, bytes);
    case FAN_PLACE_PARTIAL:
        return read_partial(file, to, offset, bytes);
    case FAN_PLACE_REMOTE:
        return read_remote(file, to, offset, bytes);
    default:
        return -EIO;
    }
}

int fan_stored_read_unmapped(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    atomic_fetch_add(&file->waiting, 1);
    int rc = read_unmapped(file, to, offset, bytes);
    atomic_fetch_sub(&file->waiting, 1);
    return rc;
}
