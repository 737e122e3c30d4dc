#include "staged.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../format/cache_format.h"
#include "../../local/read_full.h"
#include "../machine/shared.h"
#include "marks.h"
#include "mounts.h"
#include "pack_files.h"

#ifndef MADV_POPULATE_READ
#    define MADV_POPULATE_READ 22 /* since Linux 5.14; older headers lack it */
#endif

enum { PAGE_MIN_BYTES = 4096 };

bool fan_staged_has(const struct fan_node_mount *mount, const struct fan_fetch_request *request)
{
    if (fan_acquire32(&mount->places[request->pack].state) == FAN_PLACE_STAGED)
        return !fan_mount_is_unchecked(mount, request->record);
    return fan_share_has(mount, request);
}

int fan_staged_open(struct fan_node_mount *mount, uint32_t pack, bool to_write)
{
    char path[PATH_MAX];
    if (fan_acquire32(&mount->places[pack].state) == FAN_PLACE_PARTIAL)
        return fan_partial_open(&mount->share.partial, pack, to_write);
    int rc = fan_pack_path(mount->staged_dir, pack, path);
    return rc == 0 ? fan_open_file(path, to_write ? O_RDWR : O_RDONLY) : rc;
}

static int map_pack(struct fan_node_mount *mount, uint32_t pack)
{
    uint64_t bytes = mount->index.packs[pack].file_bytes;
    if (mount->mapped[pack] != NULL)
        return 0;
    int rc =
        fan_map_file(fan_staged_open(mount, pack, false), PROT_READ, &bytes, &mount->mapped[pack]);
    return rc == 0 ? 0 : -ENOENT;
}

/* Before Linux 5.14: reads the bytes to find out whether they can be read. */
static int try_read(struct fan_node_mount *mount, const struct fan_fetch_request *request)
{
    char *scratch = malloc(request->bytes);
    int fd = fan_staged_open(mount, request->pack, false);
    int rc = -EIO;
    if (fd >= 0 && scratch != NULL)
        rc = fan_read_full(fd, scratch, request->offset, request->bytes);
    if (fd >= 0)
        close(fd);
    free(scratch);
    return rc;
}

/* The pages that hold the bytes of a request. */
struct pages {
    char *start;
    size_t bytes;
};

static struct pages pages_of(const struct fan_mounts *mounts,
                             const struct fan_fetch_request *request)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = request->offset / page * page;
    char *base = mounts->mounts[request->mount].mapped[request->pack];
    return (struct pages){base + start, request->offset + request->bytes - start};
}

const char *fan_staged_bytes(const struct fan_mounts *mounts,
                             const struct fan_fetch_request *request)
{
    return mounts->mounts[request->mount].mapped[request->pack] + request->offset;
}

bool fan_staged_is_in_memory(const struct fan_mounts *mounts,
                             const struct fan_fetch_request *request)
{
    unsigned char resident[FAN_CACHE_BLOCK_BYTES / PAGE_MIN_BYTES + 1];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct pages pages = pages_of(mounts, request);
    if (mincore(pages.start, pages.bytes, resident) != 0)
        return true; /* the read will report the error */
    for (size_t i = 0; i * page < pages.bytes; i++) {
        if ((resident[i] & 1) == 0)
            return false;
    }
    return true;
}

/* Waits for the bytes here, where a page that cannot be read is an error: it would kill the thread
 * that sends it. */
int fan_staged_read(const struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    struct pages pages = pages_of(mounts, request);
    if (mounts->mounts[request->mount].crowded)
        fan_sys_begin_reading(pages.start, pages.bytes);
    if (madvise(pages.start, pages.bytes, MADV_POPULATE_READ) == 0)
        return 0;
    bool unknown = errno == EINVAL || errno == ENOSYS;
    return unknown ? try_read(&mounts->mounts[request->mount], request) : -EIO;
}

int fan_staged_admit(struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    int rc = fan_mounts_check(mounts, request);
    if (rc != 0)
        return rc;
    struct fan_node_mount *mount = &mounts->mounts[request->mount];
    if (fan_mounts_is_damaged(mounts, request->mount, request->record))
        return -EIO;
    return fan_staged_has(mount, request) ? map_pack(mount, request->pack) : -ENOENT;
}
