#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../format/pack_format.h"
#include "../local/sound.h"
#include "mounts.h"
#include "ranks.h"
#include "shared.h"

enum { LOCK_S = 1, READINGS = 2 };

int fan_share_init(struct fan_node_mount *mount, const uint64_t *bounds)
{
    struct fan_share *share = &mount->share;
    uint64_t start = 0;
    size_t bounds_bytes = ((size_t)share->world_size + 1) * sizeof(*bounds);
    int rc = fan_partial_init(&share->partial, &mount->index, mount->staged_dir);
    share->bounds = malloc(bounds_bytes);
    share->starts = calloc((size_t)mount->pack_count + 1, sizeof(*share->starts));
    share->spoiled = calloc((size_t)mount->pack_count + 1, sizeof(*share->spoiled));
    if (share->bounds == NULL || share->starts == NULL || share->spoiled == NULL)
        rc = -ENOMEM;
    if (rc != 0) {
        fan_share_fini(share);
        return rc;
    }
    memcpy(share->bounds, bounds, bounds_bytes);
    for (uint32_t pack = 0; pack < mount->pack_count; pack++) {
        share->starts[pack] = start;
        if (fan_acquire32(&mount->places[pack].state) == FAN_PLACE_PARTIAL)
            start += mount->index.packs[pack].file_bytes;
    }
    return 0;
}

void fan_share_fini(struct fan_share *share)
{
    fan_partial_fini(&share->partial);
    free(share->spoiled);
    free(share->starts);
    free(share->bounds);
    share->spoiled = NULL;
    share->starts = share->bounds = NULL;
}

static bool is_partial(const struct fan_node_mount *mount, uint32_t pack)
{
    return mount->share.bounds != NULL &&
           fan_acquire32(&mount->places[pack].state) == FAN_PLACE_PARTIAL;
}

static const struct fan_record *record_of(const struct fan_node_mount *mount, uint64_t id)
{
    return fan_index_record(&mount->index, id);
}

uint32_t fan_share_rank(const struct fan_node_mount *mount, const struct fan_fetch_request *request)
{
    const struct fan_share *share = &mount->share;
    const struct fan_record *record = record_of(mount, request->record);
    if (!is_partial(mount, request->pack) || record->stored_size > share->largest_bytes)
        return FAN_NO_RANK;
    uint64_t at = share->starts[request->pack] + record->offset;
    uint32_t low = 0, high = share->world_size; /* the last bound that is not behind it */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (share->bounds[middle + 1] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < share->world_size ? low : FAN_NO_RANK;
}

/* A request for all of a record's stored bytes. */
static struct fan_fetch_request whole(const struct fan_node_mount *mount, uint32_t number,
                                      uint64_t id)
{
    const struct fan_record *record = record_of(mount, id);
    return (struct fan_fetch_request){.mount = number,
                                      .pack = record->pack,
                                      .record = id,
                                      .offset = record->offset,
                                      .bytes = (uint32_t)record->stored_size};
}

bool fan_share_has(const struct fan_node_mount *mount, const struct fan_fetch_request *request)
{
    return is_partial(mount, request->pack) &&
           fan_partial_has(&mount->share.partial, request->record);
}

static bool is_missing(const struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    const struct fan_node_mount *mount = &mounts->mounts[request->mount];
    const struct fan_share *share = &mount->share;
    return fan_share_rank(mount, request) == share->own_rank && fan_relaxed32(&share->full) == 0 &&
           fan_relaxed32(&share->spoiled[request->pack]) == 0 && !fan_share_has(mount, request) &&
           !fan_mounts_is_damaged(mounts, request->mount, request->record);
}

bool fan_share_is_missing(const struct fan_mounts *mounts, uint32_t mount, uint64_t record)
{
    struct fan_fetch_request request = whole(&mounts->mounts[mount], mount, record);
    return is_missing(mounts, &request);
}

bool fan_share_wants(const struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    const struct fan_node_mount *mount = &mounts->mounts[request->mount];
    return record_of(mount, request->record)->stored_size <= FAN_FILL_MAX_BYTES &&
           is_missing(mounts, request);
}

/* ---- reading and keeping ---- */

static int check_sound(const struct fan_node_mount *mount, uint64_t id, const char *bytes)
{
    return fan_check_sound_in_memory(&mount->index, record_of(mount, id), bytes);
}

/* Reads a record whole. What is not right is read again before it counts as damaged. */
static int read_sound(struct fan_mounts *mounts, const struct fan_fetch_request *request, char *to)
{
    int rc = 0;
    for (unsigned i = 0; i < READINGS; i++) {
        rc = fan_mounts_read_shared(mounts, request, to);
        if (rc != 0)
            return rc;
        rc = check_sound(&mounts->mounts[request->mount], request->record, to);
        if (rc != -EIO)
            return rc;
    }
    fan_mounts_mark_damaged(mounts, request->mount, request->record);
    return rc;
}

static bool is_full(int error)
{
    return error == -ENOSPC || error == -EDQUOT || error == -EFBIG || error == -EROFS;
}

/* What became of an attempt to keep a record. What cannot be kept is read elsewhere. */
static int note_kept(struct fan_mounts *mounts, struct fan_node_mount *mount, uint64_t id, int rc)
{
    if (rc == 0) {
        fan_partial_set(&mount->share.partial, id);
        fan_count64(&mounts->counts.kept_records, 1);
        fan_count64(&mounts->counts.kept_bytes, record_of(mount, id)->stored_size);
    } else if (is_full(rc)) {
        if (__atomic_exchange_n(&mount->share.full, 1, __ATOMIC_RELAXED) == 0)
            fan_count64(&mounts->counts.full_disks, 1);
        rc = -ENOSPC;
    } else if (rc == -ESTALE) {
        fan_put32(&mount->share.spoiled[record_of(mount, id)->pack], 1);
    }
    return rc;
}

/* Keeps a record whose bytes were found right. 0 or -errno. */
static int keep(struct fan_mounts *mounts, struct fan_node_mount *mount, uint64_t id,
                const char *bytes)
{
    const struct fan_record *record = record_of(mount, id);
    int fd = fan_partial_open(&mount->share.partial, record->pack, true);
    if (fd < 0)
        return note_kept(mounts, mount, id, fd);
    int rc = fan_partial_write(fd, bytes, record->offset, record->stored_size);
    close(fd);
    return note_kept(mounts, mount, id, rc);
}

/* 0 or -EBUSY: whoever has the lock waits for a disk, and perhaps in vain. */
static int lock_for_a_while(pthread_mutex_t *lock)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOCK_S;
    return pthread_mutex_timedlock(lock, &until) == 0 ? 0 : -EBUSY;
}

int fan_share_fill(struct fan_mounts *mounts, const struct fan_fetch_request *request,
                   char **stored)
{
    struct fan_node_mount *mount = &mounts->mounts[request->mount];
    struct fan_fetch_request all = whole(mount, request->mount, request->record);
    pthread_mutex_t *lock = fan_partial_lock(&mount->share.partial, request->record);
    *stored = NULL;
    if (lock_for_a_while(lock) != 0)
        return -EBUSY;
    int rc = 0;
    if (!fan_partial_has(&mount->share.partial, request->record)) {
        char *bytes = malloc(all.bytes);
        rc = bytes != NULL ? read_sound(mounts, &all, bytes) : -ENOMEM;
        if (rc == 0) {
            keep(mounts, mount, request->record, bytes);
            *stored = bytes;
        } else {
            free(bytes);
        }
    }
    pthread_mutex_unlock(lock);
    return rc;
}

/* As pread(2) of a record that is here. */
static int read_here(const struct fan_node_mount *mount, const struct fan_fetch_request *request,
                     void *to)
{
    struct fan_partial *partial = (struct fan_partial *)&mount->share.partial;
    int fd = fan_partial_open(partial, request->pack, false);
    if (fd < 0)
        return fd;
    ssize_t got = pread(fd, to, request->bytes, (off_t)request->offset);
    close(fd);
    return got == (ssize_t)request->bytes ? 0 : -EIO;
}

static bool is_whole(const struct fan_node_mount *mount, const struct fan_fetch_request *request)
{
    return request->bytes == record_of(mount, request->record)->stored_size;
}

int fan_share_read(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to)
{
    const struct fan_node_mount *mount = &mounts->mounts[request->mount];
    char *stored = NULL;
    int rc = -EBUSY;
    if (fan_share_wants(mounts, request))
        rc = fan_share_fill(mounts, request, &stored);
    else if (fan_share_has(mount, request))
        rc = 0;
    if (stored != NULL) {
        uint64_t from = request->offset - record_of(mount, request->record)->offset;
        memcpy(to, stored + from, request->bytes);
        free(stored);
        return 0;
    }
    if (rc == 0)
        rc = read_here(mount, request, to) == 0 ? 0 : -EBUSY;
    if (rc != -EBUSY)
        return rc;
    return is_whole(mount, request) ? read_sound(mounts, request, to)
                                    : fan_mounts_read_shared(mounts, request, to);
}

/* ---- ahead ---- */

/* The stored bytes of a record as they were written to its partial pack, until the node ends. */
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
    ssize_t got = pread(written->fd, written->buffer, bytes, (off_t)(written->from + offset));
    return got == (ssize_t)bytes ? written->buffer : NULL;
}

static int check_written(const struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd)
{
    const struct fan_node_mount *mount = &mounts->mounts[number];
    const struct fan_record *record = record_of(mount, id);
    struct written written = {.mounts = mounts, .fd = fd, .from = record->offset};
    const struct fan_stored stored = {.at = written_at, .of = &written};
    int rc = fan_check_sound(&mount->index, record, &stored);
    free(written.buffer);
    return rc;
}

/* Copies the stored bytes of a long record, piece by piece, until the node ends. */
static int copy_long(struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd, char *buffer)
{
    const struct fan_node_mount *mount = &mounts->mounts[number];
    const struct fan_record *record = record_of(mount, id);
    struct fan_fetch_request piece = whole(mount, number, id);
    uint64_t end = record->offset + record->stored_size;
    for (; piece.offset < end; piece.offset += piece.bytes) {
        uint64_t rest = end - piece.offset;
        piece.bytes = rest < FAN_FILL_MAX_BYTES ? (uint32_t)rest : FAN_FILL_MAX_BYTES;
        int rc = fan_relaxed32(&mounts->ending) != 0
                     ? -ECANCELED
                     : fan_mounts_read_shared(mounts, &piece, buffer);
        if (rc == 0)
            rc = fan_partial_write(fd, buffer, piece.offset, piece.bytes);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* What is written unchecked must not go over what was found right: neither what another job did, so
 * one writes while it has the lock; nor what lies there under another of the file's names. 0,
 * -EEXIST (it is here), or -EBUSY. */
static int lock_long(const struct fan_node_mount *mount, uint64_t id, int fd)
{
    const struct fan_record *record = record_of(mount, id);
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)record->offset,
                         .l_len = (off_t)record->stored_size};
    if (record->nlink > 1 || fcntl(fd, F_OFD_SETLK, &lock) != 0)
        return -EBUSY;
    return fan_partial_has(&mount->share.partial, id) ? -EEXIST : 0;
}

static int copy_and_check(struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd)
{
    char *buffer = malloc(FAN_FILL_MAX_BYTES);
    int rc = buffer != NULL ? -EIO : -ENOMEM;
    for (unsigned i = 0; i < READINGS && rc == -EIO; i++) {
        rc = copy_long(mounts, number, id, fd, buffer);
        if (rc != 0)
            break;
        rc = check_written(mounts, number, id, fd);
        if (rc == -EIO && i + 1 == READINGS)
            fan_mounts_mark_damaged(mounts, number, id);
    }
    free(buffer);
    return rc;
}

static int fill_long(struct fan_mounts *mounts, uint32_t number, uint64_t id)
{
    struct fan_node_mount *mount = &mounts->mounts[number];
    int fd = fan_partial_open(&mount->share.partial, record_of(mount, id)->pack, true);
    if (fd < 0)
        return note_kept(mounts, mount, id, fd);
    int rc = lock_long(mount, id, fd);
    if (rc == 0)
        rc = note_kept(mounts, mount, id, copy_and_check(mounts, number, id, fd));
    close(fd);
    return rc == -EEXIST ? 0 : rc;
}

/* What lies together of a run that was read, and was found right: it is written at once, for large
 * writes become large pages. first, count: in the run's records; from, to: in its pack. */
struct stretch {
    uint64_t first;
    uint64_t count;
    uint64_t from;
    uint64_t to;
};

/* Writes a stretch and begins another. 0 or -errno. */
static int keep_stretch(struct fan_mounts *mounts, struct fan_node_mount *mount, int fd,
                        const uint64_t *records, const char *bytes, struct stretch *stretch)
{
    uint64_t start = record_of(mount, records[0])->offset;
    int rc = 0;
    if (stretch->count > 0)
        rc = fan_partial_write(fd, bytes + (stretch->from - start), stretch->from,
                               stretch->to - stretch->from);
    for (uint64_t i = 0; i < stretch->count; i++)
        rc = note_kept(mounts, mount, records[stretch->first + i], rc);
    *stretch = (struct stretch){.count = 0};
    return rc;
}

/* Adds a record to a stretch where it lies behind it, with no more than alignment between them. */
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

/* Reads a record of a run that is not right again, by itself. */
static int fill_again(struct fan_mounts *mounts, uint32_t number, uint64_t id)
{
    struct fan_fetch_request request = whole(&mounts->mounts[number], number, id);
    char *stored = NULL;
    int rc = fan_share_fill(mounts, &request, &stored);
    free(stored);
    return rc;
}

/* Keeps the records of a run that was read to `bytes`. 0, or the last -errno. */
static int keep_all(struct fan_mounts *mounts, uint32_t number, const uint64_t *records,
                    uint64_t count, const char *bytes, int fd)
{
    struct fan_node_mount *mount = &mounts->mounts[number];
    uint64_t start = record_of(mount, records[0])->offset;
    struct stretch stretch = {.count = 0};
    int rc = 0, error = 0;
    for (uint64_t i = 0; i < count && rc != -ENOSPC; i++) {
        const struct fan_record *record = record_of(mount, records[i]);
        if (!fan_share_is_missing(mounts, number, records[i]))
            continue;
        rc = check_sound(mount, records[i], bytes + (record->offset - start));
        if (rc == -EIO)
            rc = fill_again(mounts, number, records[i]);
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
    int fd = fan_partial_open(&mount->share.partial, record_of(mount, records[0])->pack, true);
    if (fd < 0)
        return note_kept(mounts, mount, records[0], fd);
    int rc = keep_all(mounts, number, records, count, bytes, fd);
    close(fd);
    return rc;
}

int fan_share_fill_run(struct fan_mounts *mounts, uint32_t number, const uint64_t *records,
                       uint64_t count)
{
    const struct fan_node_mount *mount = &mounts->mounts[number];
    struct fan_fetch_request run = whole(mount, number, records[0]);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct fan_record *record = record_of(mount, records[i]);
        uint64_t to = record->offset - run.offset + record->stored_size;
        bytes = to > bytes ? to : bytes;
    }
    if (bytes > FAN_FILL_MAX_BYTES)
        return fill_long(mounts, number, records[0]);
    char *buffer = malloc(bytes);
    run.bytes = (uint32_t)bytes;
    int rc = buffer != NULL ? fan_mounts_read_shared(mounts, &run, buffer) : -ENOMEM;
    if (rc == 0)
        rc = keep_run(mounts, number, records, count, buffer);
    free(buffer);
    return rc;
}
