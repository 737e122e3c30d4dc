#include "settle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../local/read_full.h"
#include "keep.h"
#include "marks.h"
#include "originals.h"
#include "shared_packs.h"
#include "staged.h"
#include "../machine/shared.h"

/* Reads the stored bytes of a record from its local pack, until the node ends. */
struct written {
    const struct fan_mounts *mounts;
    int fd;
    uint64_t from;
    char *buffer;
    uint64_t room;
};

static const char *written_at(const struct fan_stored *stored, uint64_t offset, uint64_t bytes)
{
    struct written *written = stored->of;
    if (fan_relaxed32(&written->mounts->ending) != 0)
        return NULL;
    if (bytes > written->room) {
        free(written->buffer);
        written->buffer = malloc(bytes);
        written->room = written->buffer != NULL ? bytes : 0;
    }
    if (written->buffer == NULL)
        return NULL;
    int rc = fan_read_full(written->fd, written->buffer, written->from + offset, bytes);
    return rc == 0 ? written->buffer : NULL;
}

typedef int fan_check(const struct fan_node_mount *mount, uint64_t id,
                      const struct fan_stored *stored);

static int check_written(const struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd,
                         fan_check *check)
{
    const struct fan_node_mount *mount = &mounts->mounts[number];
    const struct fan_record *record = fan_mount_record(mount, id);
    struct written written = {.mounts = mounts, .fd = fd, .from = record->offset};
    const struct fan_stored stored = {.at = written_at, .of = &written};
    int rc = check(mount, id, &stored);
    free(written.buffer);
    return rc;
}

/* Copies the stored bytes of a record piece by piece, until the node ends. buffer: room for a
 * piece, of `most` bytes. */
static int copy(struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd, char *buffer,
                uint32_t most)
{
    const struct fan_node_mount *mount = &mounts->mounts[number];
    const struct fan_record *record = fan_mount_record(mount, id);
    struct fan_fetch_request piece = fan_record_request(mount, number, id);
    uint64_t end = record->offset + record->stored_size;
    for (; piece.offset < end; piece.offset += piece.bytes) {
        uint64_t rest = end - piece.offset;
        piece.bytes = rest < most ? (uint32_t)rest : most;
        int rc = fan_relaxed32(&mounts->ending) != 0 ? -ECANCELED
                                                     : fan_shared_read(mounts, &piece, buffer);
        if (rc == 0)
            rc = fan_write_full(fd, buffer, piece.offset, piece.bytes);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int fan_copy_and_check(struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd)
{
    bool is_far = fan_mount_is_far(&mounts->mounts[number]);
    uint32_t most = is_far ? FAN_OBJECT_PART_MAX_BYTES : FAN_FILL_MAX_BYTES;
    char *buffer = malloc(most);
    int rc = buffer != NULL ? -EIO : -ENOMEM;
    for (unsigned i = 0; i < FAN_KEEP_READINGS && rc == -EIO; i++) {
        rc = copy(mounts, number, id, fd, buffer, most);
        if (rc != 0)
            break;
        rc = check_written(mounts, number, id, fd, fan_keep_check_read);
        if (rc == -EIO && i + 1 == FAN_KEEP_READINGS)
            fan_mounts_mark_damaged(mounts, number, id);
    }
    free(buffer);
    return rc;
}

static bool is_whole_pack(const struct fan_node_mount *mount, uint64_t id)
{
    uint32_t pack = fan_mount_record(mount, id)->pack;
    return fan_acquire32(&mount->places[pack].state) == FAN_PLACE_STAGED;
}

int fan_lock_record(const struct fan_record *record, int fd, short type)
{
    struct flock lock = {.l_type = type,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)record->offset,
                         .l_len = (off_t)record->stored_size};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : -EBUSY;
}

/* Copies the bytes of a record again. Restores the pack's times, by which the next job recognises
 * it. */
static int mend(struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd)
{
    struct stat before;
    int known = fstat(fd, &before);
    int rc = fan_copy_and_check(mounts, number, id, fd);
    if (known == 0)
        futimens(fd, (struct timespec[]){before.st_atim, before.st_mtim});
    if (rc == 0)
        fan_count64(&mounts->counts.mended_records, 1);
    return rc;
}

/* Checks a record's bytes. Copies the record again if they are wrong or incomplete. */
static int check_or_mend(struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd)
{
    int rc = check_written(mounts, number, id, fd, fan_keep_check_kept);
    bool wrong = rc == -EIO || (rc == -ENODATA && fan_relaxed32(&mounts->ending) == 0);
    return wrong ? mend(mounts, number, id, fd) : rc;
}

/* Records the result of a check. A record that is damaged everywhere counts as checked, too. Only a
 * partial pack can lack a record. */
static int note(struct fan_mounts *mounts, uint32_t number, uint64_t id, int rc)
{
    struct fan_node_mount *mount = &mounts->mounts[number];
    bool whole = is_whole_pack(mount, id);
    if (whole && rc == -ENODATA)
        rc = -EBUSY;
    if (rc == 0 && !whole)
        fan_partial_set(&mount->share.partial, id);
    else if (whole && (rc == 0 || fan_mounts_is_damaged(mounts, number, id)))
        fan_mount_note_checked(mount, id);
    else if (!whole && rc != -EBUSY && fan_relaxed32(&mounts->ending) == 0)
        fan_partial_drop_claim(&mount->share.partial, id);
    return rc;
}

/* Returns the result of a check that another thread has made. */
static int result_of(const struct fan_mounts *mounts, uint32_t number, uint64_t id)
{
    const struct fan_node_mount *mount = &mounts->mounts[number];
    if (fan_mounts_is_damaged(mounts, number, id))
        return -EIO;
    return is_whole_pack(mount, id) || fan_partial_has(&mount->share.partial, id) ? 0 : -ENODATA;
}

static int settle(struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd)
{
    const struct fan_node_mount *mount = &mounts->mounts[number];
    int rc = fan_lock_record(fan_mount_record(mount, id), fd, F_WRLCK);
    if (rc == 0)
        rc = fan_mount_is_unchecked(mount, id)
                 ? note(mounts, number, id, check_or_mend(mounts, number, id, fd))
                 : result_of(mounts, number, id);
    fan_lock_record(fan_mount_record(mount, id), fd, F_UNLCK);
    return rc;
}

int fan_settle(struct fan_mounts *mounts, uint32_t number, const uint64_t *records, uint64_t count)
{
    struct fan_node_mount *mount = &mounts->mounts[number];
    uint64_t i = 0;
    while (i < count && !fan_mount_is_unchecked(mount, records[i]))
        i++;
    if (i == count)
        return result_of(mounts, number, records[count - 1]);
    int fd = fan_staged_open(mount, fan_mount_record(mount, records[i])->pack, true);
    int rc = 0, gone = is_whole_pack(mount, records[i]) ? -EBUSY : -ENODATA;
    for (; i < count; i++) {
        if (fan_mount_is_unchecked(mount, records[i]))
            rc = fd >= 0 ? settle(mounts, number, records[i], fd)
                         : note(mounts, number, records[i], gone);
        else
            rc = result_of(mounts, number, records[i]);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}
