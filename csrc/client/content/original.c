#include "original.h"

#include <errno.h>
#include <fcntl.h>

#include "../../common/original.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../files/filetable.h"
#include "../job/packs.h"
#include "session.h"

static int path_of(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                   struct fan_path *path)
{
    if (path == NULL)
        return -ENOMEM;
    return fan_original_path(&dataset->index, view->dataset_dir.text, id, path->text);
}

int fan_original_stat(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                      struct stat *st)
{
    FAN_OFF_STACK(struct fan_path, path);
    int rc = path_of(view, dataset, id, path);
    return rc != 0 ? rc : (int)FAN_SYS(newfstatat, AT_FDCWD, path->text, st, AT_SYMLINK_NOFOLLOW);
}

int fan_original_open(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                      int flags)
{
    FAN_OFF_STACK(struct fan_path, path);
    int rc = path_of(view, dataset, id, path);
    return rc != 0 ? rc : fan_sys_openat(AT_FDCWD, path->text, flags, 0);
}

/* Sets the file's bit, then the flag that makes readers look at the bits. */
static void note_changed(struct fan_view *view, uint32_t pack, uint64_t id)
{
    atomic_fetch_or(&view->damage[id / 64], UINT64_C(1) << id % 64);
    __atomic_fetch_or(&view->places[pack].flags, FAN_PLACE_HAS_DAMAGE, __ATOMIC_RELEASE);
}

/* Returns whether a file is in the block cache: then a daemon has compared its original. */
static bool is_cached(const struct fan_view *view, const struct fan_record *record, uint64_t id)
{
    const struct fan_cache *cache = fan_session_now();
    return cache != NULL && record->stored_size <= FAN_CACHE_BLOCK_BYTES &&
           fan_cache_find(cache, fan_cache_file(view->number, id), 0, 0) != NULL;
}

/* Lets later opens go without a look once the content cannot change for this job any more: it is on
 * the local disk or in the cache, or there is none. The daemon does the same for what it reads, but
 * not for the programs of other jobs, which use its cache, too. */
static void note_same(struct fan_view *view, struct fan_dataset *dataset, uint64_t id)
{
    const struct fan_record *record = &dataset->index.records[id];
    if (record->logical_size == 0 || is_cached(view, record, id) ||
        fan_pack_map_partial(view, dataset, record->pack, id) != NULL)
        atomic_fetch_and(&view->unchecked[id / 64], ~(UINT64_C(1) << id % 64));
}

bool fan_original_differs(struct fan_view *view, struct fan_dataset *dataset, uint64_t id)
{
    struct stat st;
    if (fan_original_has_changed(view, id))
        return true;
    if (!fan_view_bit(view->unchecked, id))
        return false;
    const struct fan_record *record = &dataset->index.records[id];
    int rc = fan_original_stat(view, dataset, id, &st);
    if (rc == 0 && fan_stat_state(&st) == record->checksum) {
        note_same(view, dataset, id);
        return false;
    }
    if (rc == 0 || rc == -ENOENT || rc == -ENOTDIR)
        note_changed(view, record->pack, id);
    return true;
}

int fan_original_pread(const struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    struct stat before, after;
    int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC; /* it may be a FIFO by now */
    int fd = fan_original_open(file->view, file->dataset, file->id, flags);
    if (fd < 0)
        return -EIO;
    int rc = FAN_SYS(fstat, fd, &before) == 0 ? fan_sys_read_full(fd, to, bytes, offset) : -EIO;
    /* Compares the state before and after the read, because a write in between changes it. */
    if (rc == 0 &&
        (FAN_SYS(fstat, fd, &after) != 0 || fan_stat_state(&before) != file->record->checksum ||
         fan_stat_state(&after) != file->record->checksum))
        rc = -EIO;
    fan_sys_close(fd);
    return rc;
}
