#include "packs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../../common/number.h"
#include "../../common/sys.h"
#include "../../format/resident_format.h"
#include "../machine/park.h"
#include "../machine/vfork.h"

/* Writes the path of a pack, such as "<dir>/pack-00042.fsp", with ".sparse" at the end for a pack
 * of which only a part is on this node. The number has at least five digits. */
static void pack_path(const struct fan_view *view, uint32_t pack, enum fan_pack_copy copy,
                      char path[4096 + 32])
{
    const struct fan_text *dir = copy == FAN_PACK_SHARED ? &view->dataset_dir : &view->staged_dir;
    char *to = path; /* without stpcpy: a sanitizer's is not ready at exec */
    memcpy(to, dir->text, dir->bytes);
    to += dir->bytes;
    memcpy(to, "/pack-", 6);
    to = fan_put_padded(to + 6, pack, 5);
    memcpy(to, ".fsp", 5);
    if (copy == FAN_PACK_PARTIAL)
        memcpy(to + 4, ".sparse", 8);
}

int fan_pack_open(const struct fan_view *view, uint32_t pack, enum fan_pack_copy copy)
{
    char path[4096 + 32];
    pack_path(view, pack, copy, path);
    return fan_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

/* Maps a file of `bytes` bytes, and closes its descriptor. Returns NULL if the file has another
 * size or cannot be mapped. */
static const char *map_sized(int fd, uint64_t bytes)
{
    uint64_t is;
    long at = fan_map_whole(fd, PROT_READ, &is);
    if (fan_sys_failed(at))
        return NULL;
    if (is != bytes)
        fan_sys_munmap((void *)at, is);
    return is == bytes ? (const char *)at : NULL;
}

static const char *map_pack(_Atomic(const char *) *slot, int fd, uint64_t bytes)
{
    return fan_sys_publish(slot, (void *)map_sized(fd, bytes), bytes);
}

const char *fan_pack_map(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack)
{
    _Atomic(const char *) *slot = &dataset->packs[pack].base;
    const char *base = atomic_load_explicit(slot, memory_order_acquire);
    if (__builtin_expect(base != NULL, 1))
        return base;
    return fan_view_place(view, pack) == FAN_PLACE_STAGED
               ? map_pack(slot, fan_pack_open(view, pack, FAN_PACK_STAGED),
                          dataset->index.packs[pack].file_bytes)
               : NULL;
}

/* Maps the file `resident`. Returns NULL if this dataset has none. */
static const char *map_resident(const struct fan_view *view, struct fan_dataset *dataset)
{
    char path[4096 + 16];
    memcpy(path, view->staged_dir.text, view->staged_dir.bytes);
    memcpy(path + view->staged_dir.bytes, "/resident", sizeof("/resident"));
    int fd = fan_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    const uint64_t bytes = fan_resident_bytes(view->record_count, view->pack_count);
    const char *base = map_sized(fd, bytes);
    if (base != NULL && !fan_resident_is_of(base, view->record_count, view->pack_count)) {
        fan_sys_munmap((void *)base, bytes);
        return NULL;
    }
    return fan_sys_publish(&dataset->resident, (void *)base, bytes);
}

static bool is_resident(const char *resident, const struct fan_view *view, uint64_t id)
{
    const uint64_t *bits =
        (const uint64_t *)(resident + fan_resident_bits_offset(view->pack_count));
    return (__atomic_load_n(&bits[id / 64], __ATOMIC_ACQUIRE) >> id % 64 & 1) != 0;
}

static const char *resident_of(const struct fan_view *view, struct fan_dataset *dataset)
{
    const char *resident = atomic_load_explicit(&dataset->resident, memory_order_acquire);
    return resident != NULL ? resident : map_resident(view, dataset);
}

static int open_partial(const struct fan_view *view, struct fan_dataset *dataset, uint32_t pack)
{
    struct stat st;
    const char *resident = resident_of(view, dataset);
    int fd = resident != NULL ? fan_pack_open(view, pack, FAN_PACK_PARTIAL) : -ENOENT;
    if (fd < 0)
        return fd;
    const uint64_t *inodes = (const uint64_t *)(resident + sizeof(struct fan_resident_header));
    if (FAN_SYS(fstat, fd, &st) == 0 &&
        st.st_ino == __atomic_load_n(&inodes[pack], __ATOMIC_ACQUIRE))
        return fd;
    fan_sys_close(fd);
    return -ESTALE;
}

const char *fan_pack_map_partial(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack,
                                 uint64_t id)
{
    _Atomic(const char *) *slot = &dataset->packs[pack].sparse;
    const char *resident = resident_of(view, dataset);
    if (resident == NULL || id >= view->record_count || !is_resident(resident, view, id))
        return NULL;
    const char *base = atomic_load_explicit(slot, memory_order_acquire);
    return base != NULL ? base
                        : map_pack(slot, open_partial(view, dataset, pack),
                                   dataset->index.packs[pack].file_bytes);
}

int fan_pack_open_here(const struct fan_view *view, struct fan_dataset *dataset, uint32_t pack)
{
    return fan_view_place(view, pack) == FAN_PLACE_PARTIAL
               ? open_partial(view, dataset, pack)
               : fan_pack_open(view, pack, FAN_PACK_STAGED);
}

bool fan_is_pack_in(const char *path, const struct fan_text *folder)
{
    static const char pack[] = "/pack-";
    return strncmp(path, folder->text, folder->bytes) == 0 &&
           strncmp(path + folder->bytes, pack, sizeof(pack) - 1) == 0;
}

int fan_pack_fd(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack,
                enum fan_pack_copy copy)
{
    atomic_int *holder = &dataset->packs[pack].fds[copy];
    int fd = fan_parked(holder);
    if (fd >= 0)
        return fd;
    static atomic_uint kept;
    if (fan_in_vfork_child() || atomic_load(&kept) >= FAN_PACK_FDS_MAX)
        return -EMFILE;
    fd = fan_pack_open(view, pack, copy);
    if (fd < 0)
        return -EIO;
    atomic_fetch_add(&kept, 1);
    return fan_park(fd, holder);
}
