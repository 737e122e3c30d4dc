#include "shared_packs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../local/read_full.h"
#include "../machine/shared.h"
#include "marks.h"
#include "originals.h"
#include "pack_files.h"

/* Opens a pack on the shared file system and checks that it still has its length. Returns a
 * descriptor or -errno. */
static int open_shared(const struct fan_node_mount *mount, uint32_t pack)
{
    char path[PATH_MAX];
    struct stat st;
    if (fan_pack_path(mount->dataset_dir, pack, path) != 0)
        return -ENAMETOOLONG;
    int fd = fan_open_file(path, O_RDONLY);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) == 0 && (uint64_t)st.st_size == mount->index.packs[pack].file_bytes) {
        /* The kernel would read ahead what nobody reads next, and delay everybody who waits. */
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        return fd;
    }
    close(fd);
    return -EIO;
}

/* Keeps a descriptor for the next reads of a pack. Returns whether it is kept. */
static bool keep_shared(struct fan_mounts *mounts, int32_t *holder, int fd)
{
    int32_t none = 0;
    if (__atomic_fetch_add(&mounts->kept, 1, __ATOMIC_RELAXED) < mounts->kept_most &&
        __atomic_compare_exchange_n(holder, &none, fd + 1, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED))
        return true;
    __atomic_fetch_sub(&mounts->kept, 1, __ATOMIC_RELAXED);
    return false;
}

static bool is_own_lack(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

/* Reads from a pack in a bucket. */
static int read_far(const struct fan_mounts *mounts, const struct fan_fetch_request *request,
                    void *to)
{
    char path[PATH_MAX];
    fan_pack_path("", request->pack, path);
    const struct fan_object_part part = {
        .path = path + 1,
        .to = to,
        .offset = request->offset,
        .bytes = request->bytes,
        .size = mounts->mounts[request->mount].index.packs[request->pack].file_bytes,
        .mount = request->mount,
        .path_bytes = (uint32_t)strlen(path) - 1};
    return mounts->fetch_object(&part) == 0 ? 0 : -EIO;
}

static int read_shared(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to)
{
    const struct fan_node_mount *mount = &mounts->mounts[request->mount];
    if (fan_mount_is_far(mount))
        return read_far(mounts, request, to);
    int32_t *holder = &mount->shared[request->pack];
    int kept = __atomic_load_n(holder, __ATOMIC_ACQUIRE) - 1;
    if (kept >= 0 && fan_read_full(kept, to, request->offset, request->bytes) == 0)
        return 0;
    int fd = open_shared(mount, request->pack); /* the file server may have restarted */
    if (fd < 0)
        return is_own_lack(fd) ? fd : -EIO;
    int rc = fan_read_full(fd, to, request->offset, request->bytes);
    if (rc != 0 || kept >= 0 || !keep_shared(mounts, holder, fd))
        close(fd);
    return rc;
}

/* Reads a part of an original. One that is not as it was listed counts as damaged: programs that
 * open it from now on get the file itself, or, of an object, an error. */
static int read_original(struct fan_mounts *mounts, const struct fan_fetch_request *request,
                         void *to)
{
    int rc = fan_original_read(mounts, request, to);
    if (rc == -ESTALE)
        fan_mounts_mark_damaged(mounts, request->mount, request->record);
    return rc == 0 || is_own_lack(rc) ? rc : -EIO;
}

int fan_shared_read(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to)
{
    int rc = fan_index_is_planned(&mounts->mounts[request->mount].index)
                 ? read_original(mounts, request, to)
                 : read_shared(mounts, request, to);
    fan_count64(&mounts->counts.shared_reads, 1);
    fan_count64(&mounts->counts.shared_bytes, rc == 0 ? request->bytes : 0);
    return rc;
}
