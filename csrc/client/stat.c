#include "stat.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

/* The type statfs shows: FUSE's, which programs know as "not local, read what you need". */
enum { FAN_STATFS_TYPE = 0x65735546, BLOCK_BYTES = 4096 };

int fan_stat_record(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                    struct stat *st)
{
    FAN_COUNT(stats, 1);
    int rc = fan_index_stat(&dataset->index, id, st);
    st->st_dev = view->device;
    return rc;
}

int fan_stat(const struct fan_target *target, struct stat *st)
{
    if (target->where == FAN_MISSING) {
        FAN_COUNT(missing, 1);
        return -target->error;
    }
    return fan_stat_record(target->view, target->dataset, target->id, st);
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

void fan_statfs(const struct fan_view *view, const struct fan_dataset *dataset, struct statfs *fs)
{
    const struct fan_index_header *header = dataset->index.header;
    memset(fs, 0, sizeof(*fs));
    fs->f_type = FAN_STATFS_TYPE;
    fs->f_bsize = BLOCK_BYTES;
    fs->f_frsize = BLOCK_BYTES;
    fs->f_blocks = header->logical_bytes / BLOCK_BYTES + 1;
    fs->f_files = header->record_count;
    fs->f_namelen = 255;
    fs->f_flags = ST_RDONLY;
    memcpy(&fs->f_fsid, &view->device, sizeof(fs->f_fsid));
}

void fan_statvfs(const struct fan_view *view, const struct fan_dataset *dataset,
                 struct statvfs *fs)
{
    const struct fan_index_header *header = dataset->index.header;
    memset(fs, 0, sizeof(*fs));
    fs->f_bsize = BLOCK_BYTES;
    fs->f_frsize = BLOCK_BYTES;
    fs->f_blocks = header->logical_bytes / BLOCK_BYTES + 1;
    fs->f_files = header->record_count;
    fs->f_fsid = view->device;
    fs->f_flag = ST_RDONLY;
    fs->f_namemax = 255;
}
