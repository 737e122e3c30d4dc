#include "keep_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../common/original.h"
#include "../../format/pack_format.h"
#include "../../local/read_full.h"
#include "keep.h"
#include "marks.h"
#include "mounts.h"
#include "settle.h"
#include "shared_packs.h"
#include "../machine/shared.h"

/* Locks a long record, which is written before it is checked: another job's unchecked bytes must
 * not overwrite checked ones. Returns 0, -EEXIST (it is here), or -EBUSY. */
static int lock_long(const struct fan_node_mount *mount, uint64_t id, int fd)
{
    if (fan_lock_record(fan_mount_record(mount, id), fd, F_WRLCK) != 0)
        return -EBUSY;
    return fan_partial_has(&mount->share.partial, id) ? -EEXIST : 0;
}

/* Fetches a further name of a file by its first name only, whose checked bytes it would overwrite
 * with unchecked ones. */
static int fill_long(struct fan_mounts *mounts, uint32_t number, uint64_t id)
{
    struct fan_node_mount *mount = &mounts->mounts[number];
    uint64_t first = fan_keep_first_name(mount, id);
    if (first != id && fan_partial_begin(&mount->share.partial, first) == 0) {
        fill_long(mounts, number, first);
        fan_partial_end(&mount->share.partial, first);
    }
    if (first != id)
        return fan_keep_as(mount, id, first) ? 0 : -EBUSY;
    int fd = fan_partial_open(&mount->share.partial, fan_mount_record(mount, id)->pack, true);
    if (fd < 0)
        return fan_keep_note(mounts, mount, id, fd);
    int rc = lock_long(mount, id, fd);
    if (rc == 0)
        rc = fan_keep_note(mounts, mount, id, fan_copy_and_check(mounts, number, id, fd));
    close(fd);
    return rc == -EEXIST ? 0 : rc;
}

/* Checked records of a run that lie together. They are written at once, because large writes get
 * large pages. first, count: in the run's records; from, to: in its pack. */
struct stretch {
    uint64_t first;
    uint64_t count;
    uint64_t from;
    uint64_t to;
};

/* Writes a stretch and begins another. Returns 0 or -errno. */
static int keep_stretch(struct fan_mounts *mounts, struct fan_node_mount *mount, int fd,
                        const uint64_t *records, const char *bytes, struct stretch *stretch)
{
    uint64_t start = fan_mount_record(mount, records[0])->offset;
    int rc = 0;
    if (stretch->count > 0)
        rc = fan_write_full(fd, bytes + (stretch->from - start), stretch->from,
                            stretch->to - stretch->from);
    for (uint64_t i = 0; i < stretch->count; i++)
        rc = fan_keep_note(mounts, mount, records[stretch->first + i], rc);
    *stretch = (struct stretch){.count = 0};
    return rc;
}

/* Adds a record to a stretch if it follows it with no more than alignment between them. */
static bool extend(struct stretch *stretch, uint64_t i, const struct fan_record *record)
{
    uint64_t end = record->offset + record->stored_size;
    if (stretch->count == 0) {
        *stretch = (struct stretch){i, 1, record->offset, end};
        return true;
    }
    if (stretch->first + stretch->count != i || record->offset < stretch->to ||
        record->offset - stretch->to >= FAN_MAP_ALIGN_BYTES)
        return false;
    stretch->count++;
    stretch->to = end;
    return true;
}

/* Reads a record by itself. */
static int fill_one(struct fan_mounts *mounts, uint32_t number, uint64_t id)
{
    struct fan_fetch_request request = fan_record_request(&mounts->mounts[number], number, id);
    char *stored = NULL;
    int rc = fan_keep_begun(mounts, &request, &stored);
    free(stored);
    return rc;
}

/* Keeps the good records of a run, which was read to `bytes`. Returns 0, or the last -errno. */
static int keep_all(struct fan_mounts *mounts, uint32_t number, const uint64_t *records,
                    uint64_t count, const char *bytes, int fd)
{
    struct fan_node_mount *mount = &mounts->mounts[number];
    uint64_t start = fan_mount_record(mount, records[0])->offset;
    struct stretch stretch = {.count = 0};
    int rc = 0, error = 0;
    for (uint64_t i = 0; i < count && rc != -ENOSPC; i++) {
        const struct fan_record *record = fan_mount_record(mount, records[i]);
        const struct fan_stored stored = fan_stored_in_memory(bytes + (record->offset - start));
        rc = fan_keep_check_read(mount, records[i], &stored);
        if (rc == -EIO)
            rc = fill_one(mounts, number, records[i]);
        else if (rc == 0 && !extend(&stretch, i, record)) {
            rc = keep_stretch(mounts, mount, fd, records, bytes, &stretch);
            extend(&stretch, i, record);
        }
        error = rc != 0 ? rc : error;
    }
    rc = keep_stretch(mounts, mount, fd, records, bytes, &stretch);
    return rc != 0 ? rc : error;
}

static int keep_run(struct fan_mounts *mounts, uint32_t number, const uint64_t *records,
                    uint64_t count, const char *bytes)
{
    struct fan_node_mount *mount = &mounts->mounts[number];
    int fd =
        fan_partial_open(&mount->share.partial, fan_mount_record(mount, records[0])->pack, true);
    if (fd < 0)
        return fan_keep_note(mounts, mount, records[0], fd);
    int rc = keep_all(mounts, number, records, count, bytes, fd);
    close(fd);
    return rc;
}

static bool is_missing(const struct fan_mounts *mounts, uint32_t number, uint64_t id)
{
    return !fan_mount_is_unchecked(&mounts->mounts[number], id) &&
           fan_share_is_missing(mounts, number, id);
}

/* Begins a record if it is missing and no other thread fetches it. Looks again when no other thread
 * can any more: one may just have brought it. */
static bool begin_one(struct fan_mounts *mounts, uint32_t number, uint64_t id)
{
    struct fan_partial *partial = &mounts->mounts[number].share.partial;
    if (!is_missing(mounts, number, id) || !fan_partial_try_begin(partial, id))
        return false;
    if (is_missing(mounts, number, id))
        return true;
    fan_partial_end(partial, id);
    return false;
}

/* Begins records that lie together, up to one that is not to be brought; at most one where each is
 * a file of its own. Returns how many. */
static uint64_t begin(struct fan_mounts *mounts, uint32_t number, const uint64_t *records,
                      uint64_t count)
{
    uint64_t most = fan_index_is_planned(&mounts->mounts[number].index) ? 1 : count, begun = 0;
    while (begun < most && begin_one(mounts, number, records[begun]))
        begun++;
    return begun;
}

/* Brings records that this thread has begun. Returns 0 or -errno. */
static int bring(struct fan_mounts *mounts, uint32_t number, const uint64_t *records,
                 uint64_t count)
{
    const struct fan_node_mount *mount = &mounts->mounts[number];
    struct fan_fetch_request run = fan_record_request(mount, number, records[0]);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct fan_record *record = fan_mount_record(mount, records[i]);
        uint64_t to = record->offset - run.offset + record->stored_size;
        bytes = to > bytes ? to : bytes;
    }
    if (bytes > FAN_FILL_MAX_BYTES)
        return fill_long(mounts, number, records[0]);
    if (fan_index_is_planned(&mount->index))
        return fill_one(mounts, number, records[0]);
    char *buffer = malloc(bytes);
    run.bytes = (uint32_t)bytes;
    int rc = buffer != NULL ? fan_shared_read(mounts, &run, buffer) : -ENOMEM;
    if (rc == 0)
        rc = keep_run(mounts, number, records, count, buffer);
    free(buffer);
    return rc;
}

int fan_keep_run(struct fan_mounts *mounts, uint32_t number, const uint64_t *records,
                 uint64_t count)
{
    struct fan_partial *partial = &mounts->mounts[number].share.partial;
    int error = 0;
    fan_settle(mounts, number, records, count);
    for (uint64_t at = 0; at < count && fan_relaxed32(&mounts->ending) == 0;) {
        uint64_t begun = begin(mounts, number, records + at, count - at);
        int rc = begun > 0 ? bring(mounts, number, records + at, begun) : 0;
        for (uint64_t i = 0; i < begun; i++)
            fan_partial_end(partial, records[at + i]);
        at += begun > 0 ? begun : 1;
        error = rc != 0 ? rc : error;
    }
    return error;
}
