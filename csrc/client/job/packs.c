#include "packs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../../common/sys.h"
#include "../machine/park.h"
#include "../machine/vfork.h"

/* "<dir>/pack-00042.fsp"; the number takes at least five digits. */
static void pack_path(const struct fan_text *dir, uint32_t pack, char path[4096 + 32])
{
    char digits[10];
    unsigned count = 0;
    do {
        digits[count++] = (char)('0' + pack % 10);
        pack /= 10;
    } while (pack > 0);
    while (count < 5)
        digits[count++] = '0';
    char *to = path;
    memcpy(to, dir->text, dir->bytes);
    to += dir->bytes;
    memcpy(to, "/pack-", 6);
    to += 6;
    while (count > 0)
        *to++ = digits[--count];
    memcpy(to, ".fsp", 5);
}

int fan_pack_open(const struct fan_view *view, uint32_t pack, enum fan_pack_copy copy)
{
    char path[4096 + 32];
    pack_path(copy == FAN_PACK_STAGED ? &view->staged_dir : &view->dataset_dir, pack, path);
    return fan_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

static const char *map_pack(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack)
{
    uint64_t bytes = dataset->index.packs[pack].file_bytes;
    struct stat st;
    int fd = fan_pack_open(view, pack, FAN_PACK_STAGED);
    if (fd < 0)
        return NULL;
    long at = FAN_SYS(fstat, fd, &st);
    if (at == 0 && (uint64_t)st.st_size == bytes)
        at = fan_sys_mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    else
        at = -EIO;
    fan_sys_close(fd);
    if (fan_sys_failed(at))
        return NULL;
    const char *expected = NULL;
    if (!atomic_compare_exchange_strong(&dataset->packs[pack].base, &expected, (const char *)at)) {
        fan_sys_munmap((void *)at, bytes);
        return expected;
    }
    return (const char *)at;
}

const char *fan_pack_map(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack)
{
    const char *base = atomic_load_explicit(&dataset->packs[pack].base, memory_order_acquire);
    if (__builtin_expect(base != NULL, 1))
        return base;
    return fan_view_place(view, pack) == FAN_PLACE_STAGED ? map_pack(view, dataset, pack) : NULL;
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
