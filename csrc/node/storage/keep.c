#include "keep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../common/original.h"
#include "../../local/read_full.h"
#include "marks.h"
#include "mounts.h"
#include "originals.h"
#include "settle.h"
#include "shared_packs.h"
#include "staged.h"
#include "../machine/shared.h"

int fan_keep_check_read(const struct fan_node_mount *mount, uint64_t id,
                        const struct fan_stored *stored)
{
    const struct fan_record *record = fan_mount_record(mount, id);
    uint64_t *sums = mount->share.partial.sums, sum;
    if (!fan_index_is_planned(&mount->index))
        return fan_check_sound(&mount->index, record, stored);
    int rc = sums != NULL ? fan_content_sum(&mount->index, record, stored, &sum) : 0;
    if (rc == 0 && sums != NULL)
        fan_put64(&sums[id], sum); /* before the bit that says the record is here */
    return rc;
}

int fan_keep_check_kept(const struct fan_node_mount *mount, uint64_t id,
                        const struct fan_stored *stored)
{
    const struct fan_record *record = fan_mount_record(mount, id);
    const uint64_t *sums = mount->share.partial.sums;
    uint64_t sum;
    if (!fan_index_is_planned(&mount->index))
        return fan_check_sound(&mount->index, record, stored);
    int rc = fan_content_sum(&mount->index, record, stored, &sum);
    return rc != 0 ? rc : sums != NULL && sum == fan_relaxed64(&sums[id]) ? 0 : -EIO;
}

/* Reads a whole record. If its checksum is wrong, reads it once more before the record counts as
 * damaged. */
static int read_sound(struct fan_mounts *mounts, const struct fan_fetch_request *request, char *to)
{
    int rc = 0;
    for (unsigned i = 0; i < FAN_KEEP_READINGS; i++) {
        rc = fan_shared_read(mounts, request, to);
        if (rc != 0)
            return rc;
        const struct fan_stored stored = fan_stored_in_memory(to);
        rc = fan_keep_check_read(&mounts->mounts[request->mount], request->record, &stored);
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

int fan_keep_note(struct fan_mounts *mounts, struct fan_node_mount *mount, uint64_t id, int rc)
{
    if (rc == 0) {
        fan_partial_set(&mount->share.partial, id);
        fan_original_note(mount, id); /* after the bit by which clients find the bytes */
        fan_count64(&mounts->counts.kept_bytes, fan_mount_record(mount, id)->stored_size);
        fan_count64(&mounts->counts.kept_records, 1);
    } else if (is_full(rc)) {
        if (__atomic_exchange_n(&mount->share.full, 1, __ATOMIC_RELAXED) == 0)
            fan_count64(&mounts->counts.full_disks, 1);
        rc = -ENOSPC;
    } else if (rc == -ESTALE) {
        fan_put32(&mount->share.spoiled[fan_mount_record(mount, id)->pack], 1);
    }
    return rc;
}

/* Writes a checked record to its partial pack. Returns 0 or -errno. */
static int keep(struct fan_mounts *mounts, struct fan_node_mount *mount, uint64_t id,
                const char *bytes)
{
    const struct fan_record *record = fan_mount_record(mount, id);
    int fd = fan_partial_open(&mount->share.partial, record->pack, true);
    if (fd < 0)
        return fan_keep_note(mounts, mount, id, fd);
    int rc = fan_write_full(fd, bytes, record->offset, record->stored_size);
    close(fd);
    return fan_keep_note(mounts, mount, id, rc);
}

uint64_t fan_keep_first_name(const struct fan_node_mount *mount, uint64_t id)
{
    const struct fan_record *record = fan_mount_record(mount, id);
    uint64_t first = fan_index_first_name(&mount->index, id);
    if (first >= id || fan_index_first_name(&mount->index, first) != first)
        return id;
    const struct fan_record *other = fan_mount_record(mount, first);
    bool same = S_ISREG(other->mode) && other->pack == record->pack &&
                other->offset == record->offset && other->stored_size == record->stored_size &&
                other->checksum == record->checksum;
    return same ? first : id;
}

bool fan_keep_as(struct fan_node_mount *mount, uint64_t id, uint64_t first)
{
    struct fan_partial *partial = &mount->share.partial;
    if (!fan_partial_has(partial, first))
        return false;
    if (partial->sums != NULL)
        fan_put64(&partial->sums[id], fan_relaxed64(&partial->sums[first]));
    fan_partial_set(partial, id); /* clients look at each name's original by themselves */
    return true;
}

/* Fetches a further name of an original by its first name. Returns whether the record is here then.
 * Not for packs: the thread may have begun the first name, too, which lies in the same run. */
static bool keep_by_first_name(struct fan_mounts *mounts, const struct fan_fetch_request *request,
                               char **stored)
{
    struct fan_node_mount *mount = &mounts->mounts[request->mount];
    uint64_t first = fan_keep_first_name(mount, request->record);
    struct fan_fetch_request by_first = fan_record_request(mount, request->mount, first);
    if (first == request->record || !fan_index_is_planned(&mount->index))
        return false;
    if (fan_keep_record(mounts, &by_first, stored) == 0 &&
        fan_keep_as(mount, request->record, first))
        return true;
    free(*stored);
    *stored = NULL;
    return false;
}

int fan_keep_begun(struct fan_mounts *mounts, const struct fan_fetch_request *request,
                   char **stored)
{
    struct fan_node_mount *mount = &mounts->mounts[request->mount];
    struct fan_fetch_request all = fan_record_request(mount, request->mount, request->record);
    *stored = NULL;
    if (fan_partial_has(&mount->share.partial, request->record) ||
        keep_by_first_name(mounts, request, stored))
        return 0;
    char *bytes = malloc(all.bytes);
    int rc = bytes != NULL ? read_sound(mounts, &all, bytes) : -ENOMEM;
    if (rc == 0) {
        keep(mounts, mount, request->record, bytes);
        *stored = bytes;
    } else {
        free(bytes);
    }
    return rc;
}

int fan_keep_record(struct fan_mounts *mounts, const struct fan_fetch_request *request,
                    char **stored)
{
    struct fan_node_mount *mount = &mounts->mounts[request->mount];
    *stored = NULL;
    /* Also if the record is not unchecked any more: another thread may have checked it since the
     * caller looked, and there is nothing to fetch for a whole pack. */
    int rc = fan_settle(mounts, request->mount, &request->record, 1);
    if (rc != -ENODATA)
        return rc;
    rc = fan_partial_begin(&mount->share.partial, request->record);
    if (rc != 0)
        return rc;
    rc = fan_keep_begun(mounts, request, stored);
    fan_partial_end(&mount->share.partial, request->record);
    return rc;
}

int fan_keep_copy(struct fan_mounts *mounts, uint32_t number, uint64_t id, const char *bytes)
{
    struct fan_node_mount *mount = &mounts->mounts[number];
    const struct fan_stored stored = fan_stored_in_memory(bytes);
    int rc = 0;
    if (!fan_partial_try_begin(&mount->share.partial, id))
        return 0;
    if (!fan_partial_has(&mount->share.partial, id)) {
        rc = fan_keep_check_read(mount, id, &stored);
        if (rc == 0)
            rc = keep(mounts, mount, id, bytes);
    }
    fan_partial_end(&mount->share.partial, id);
    return rc;
}

/* Reads bytes of a record that is resident here. */
static int read_here(struct fan_node_mount *mount, const struct fan_fetch_request *request,
                     void *to)
{
    int fd = fan_staged_open(mount, request->pack, false);
    if (fd < 0)
        return fd;
    int rc = fan_read_full(fd, to, request->offset, request->bytes);
    close(fd);
    return rc;
}

static bool is_whole(const struct fan_node_mount *mount, const struct fan_fetch_request *request)
{
    return request->bytes == fan_mount_record(mount, request->record)->stored_size;
}

int fan_keep_and_read(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to)
{
    struct fan_node_mount *mount = &mounts->mounts[request->mount];
    char *stored = NULL;
    int rc = -EBUSY;
    if (fan_share_wants(mounts, request))
        rc = fan_keep_record(mounts, request, &stored);
    else if (fan_staged_has(mount, request))
        rc = 0;
    if (stored != NULL) {
        uint64_t from = request->offset - fan_mount_record(mount, request->record)->offset;
        memcpy(to, stored + from, request->bytes);
        free(stored);
        return 0;
    }
    if (rc == 0)
        rc = read_here(mount, request, to) == 0 ? 0 : -EBUSY;
    if (rc != -EBUSY)
        return rc;
    return is_whole(mount, request) ? read_sound(mounts, request, to)
                                    : fan_shared_read(mounts, request, to);
}
