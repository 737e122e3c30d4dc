#include "originals.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "../../local/read_full.h"
#include "pack_files.h"

static bool is_as_listed(const struct fan_record *record, int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && fan_stat_state(&st) == record->checksum;
}

static int read_object(const struct fan_mounts *mounts, const struct fan_fetch_request *request,
                       void *to)
{
    const struct fan_node_mount *mount = &mounts->mounts[request->mount];
    const struct fan_record *record = fan_mount_record(mount, request->record);
    char path[PATH_MAX];
    int64_t length = fan_index_path(&mount->index, request->record, path, sizeof(path));
    const struct fan_object_part part = {.path = path,
                                         .to = to,
                                         .offset = request->offset - record->offset,
                                         .bytes = request->bytes,
                                         .size = record->logical_size,
                                         .state = record->checksum,
                                         .mount = request->mount,
                                         .path_bytes = (uint32_t)length};
    return length < 0 ? (int)length : mounts->fetch_object(&part);
}

static int read_file(struct fan_node_mount *mount, const struct fan_fetch_request *request,
                     void *to)
{
    const struct fan_record *record = fan_mount_record(mount, request->record);
    char path[PATH_MAX];
    int rc = fan_original_path(&mount->index, mount->dataset_dir, request->record, path);
    /* Nonblocking, because it may be a FIFO by now. */
    int fd = rc == 0 ? fan_open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) : rc;
    if (fd < 0)
        return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -ENXIO ? -ESTALE : fd;
    rc = is_as_listed(record, fd) ? 0 : -ESTALE;
    if (rc == 0)
        rc = fan_read_full(fd, to, request->offset - record->offset, request->bytes);
    /* Again after the reading: a write in between has changed the state. */
    if (!is_as_listed(record, fd))
        rc = -ESTALE;
    close(fd);
    if (rc == 0 && request->bytes == record->stored_size)
        fan_original_note(mount, request->record);
    return rc;
}

int fan_original_read(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to)
{
    struct fan_node_mount *mount = &mounts->mounts[request->mount];
    return fan_mount_is_far(mount) ? read_object(mounts, request, to)
                                   : read_file(mount, request, to);
}

void fan_original_note(struct fan_node_mount *mount, uint64_t id)
{
    if (!fan_index_is_planned(&mount->index))
        return;
    __atomic_fetch_and(&mount->unchecked[id / 64], ~(UINT64_C(1) << id % 64), __ATOMIC_RELEASE);
}

void fan_originals_begin(struct fan_node_mount *mount)
{
    if (fan_mount_is_far(mount))
        return; /* clients see no objects, and each fetch compares */
    for (uint64_t id = 0; id < mount->index.record_count; id++) {
        if (S_ISREG(mount->index.records[id].mode))
            mount->unchecked[id / 64] |= UINT64_C(1) << id % 64;
    }
}
