#include "stat.h"

#include <string.h>
#include <sys/sysmacros.h>

#include "../../common/sys.h"
#include "../content/original.h"
#include "../outputs/outputs.h"

/* The type that statfs shows: that of FUSE, which programs know as a file system that is not
 * local. */
enum { FAN_STATFS_TYPE = 0x65735546, BLOCK_BYTES = 4096 };

static int stat_record(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                       struct stat *st)
{
    int rc = fan_index_stat(&dataset->index, id, st);
    FAN_COUNT(stats, 1);
    st->st_dev = view->device;
    if (rc == 0 && S_ISDIR(st->st_mode) && fan_view_touched(view, id))
        st->st_nlink = 1; /* unknown: it may contain directories of outputs */
    return (int)fan_count_error(rc);
}

/* Returns whether to show the original's attributes, because the file has changed since its dataset
 * was listed. */
static bool is_of_original(const struct fan_view *view, const struct fan_dataset *dataset,
                           uint64_t id)
{
    return __builtin_expect(dataset->has_originals, 0) && fan_original_has_changed(view, id);
}

int fan_stat(const struct fan_target *target, struct stat *st)
{
    if (target->where == FAN_MISSING) {
        FAN_COUNT(missing, 1);
        return -target->error;
    }
    if (target->where == FAN_OUTPUT) {
        FAN_COUNT(stats, 1);
        fan_output_stat(target->view, &target->attr, st);
        return 0;
    }
    if (is_of_original(target->view, target->dataset, target->id))
        return fan_original_stat(target->view, target->dataset, target->id, st);
    return stat_record(target->view, target->dataset, target->id, st);
}

int fan_stat_file(int fd, const struct fan_file *file, struct stat *st)
{
    return file->record != NULL ? stat_record(file->view, file->dataset, file->id, st)
                                : fan_output_fstat(fd, file, st);
}

static struct statx_timestamp timestamp(struct timespec time)
{
    return (struct statx_timestamp){.tv_sec = time.tv_sec, .tv_nsec = (uint32_t)time.tv_nsec};
}

void fan_stat_to_statx(const struct stat *st, struct statx *stx)
{
    memset(stx, 0, sizeof(*stx));
    stx->stx_mask = STATX_BASIC_STATS;
    stx->stx_blksize = (uint32_t)st->st_blksize;
    stx->stx_nlink = (uint32_t)st->st_nlink;
    stx->stx_uid = st->st_uid;
    stx->stx_gid = st->st_gid;
    stx->stx_mode = (uint16_t)st->st_mode;
    stx->stx_ino = st->st_ino;
    stx->stx_size = (uint64_t)st->st_size;
    stx->stx_blocks = (uint64_t)st->st_blocks;
    stx->stx_atime = timestamp(st->st_atim);
    stx->stx_mtime = timestamp(st->st_mtim);
    stx->stx_ctime = timestamp(st->st_ctim);
    stx->stx_dev_major = major(st->st_dev);
    stx->stx_dev_minor = minor(st->st_dev);
}

/* The space for outputs, in blocks of BLOCK_BYTES, and the number of files for which there is
 * room. */
struct room {
    uint64_t free, available, files;
};

static struct room room_for_outputs(void)
{
    struct statfs own;
    if (FAN_SYS(statfs, fan_job.directory.text, &own) != 0)
        return (struct room){0};
    uint64_t bytes = (uint64_t)own.f_bsize;
    return (struct room){own.f_bfree * bytes / BLOCK_BYTES, own.f_bavail * bytes / BLOCK_BYTES,
                         own.f_ffree};
}

void fan_statfs(const struct fan_view *view, const struct fan_dataset *dataset, struct statfs *fs)
{
    const struct fan_index_header *header = dataset->index.header;
    struct room room = room_for_outputs();
    memset(fs, 0, sizeof(*fs));
    fs->f_type = FAN_STATFS_TYPE;
    fs->f_bsize = BLOCK_BYTES;
    fs->f_frsize = BLOCK_BYTES;
    fs->f_blocks = header->logical_bytes / BLOCK_BYTES + 1 + room.free;
    fs->f_bfree = room.free;
    fs->f_bavail = room.available;
    fs->f_files = header->record_count + room.files;
    fs->f_ffree = room.files;
    fs->f_namelen = 255;
    memcpy(&fs->f_fsid, &view->device, sizeof(fs->f_fsid));
}

void fan_statvfs(const struct fan_view *view, const struct fan_dataset *dataset,
                 struct statvfs *fs)
{
    struct statfs own;
    fan_statfs(view, dataset, &own);
    memset(fs, 0, sizeof(*fs));
    fs->f_bsize = BLOCK_BYTES;
    fs->f_frsize = BLOCK_BYTES;
    fs->f_blocks = own.f_blocks;
    fs->f_bfree = own.f_bfree;
    fs->f_bavail = own.f_bavail;
    fs->f_files = own.f_files;
    fs->f_ffree = own.f_ffree;
    fs->f_favail = own.f_ffree;
    fs->f_fsid = view->device;
    fs->f_namemax = 255;
}
