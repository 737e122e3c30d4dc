#include "mounts.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../common/original.h"
#include "../../common/segment_check.h"
#include "../../format/cache_format.h"
#include "../../format/pack_format.h"
#include "../../pack/codec.h"
#include "../../pack/content.h"
#include "../machine/shared.h"
#include "marks.h"
#include "originals.h"
#include "pack_files.h"

/* SAMPLED: at how many records of a mount to look. ROUNDED_MOST: files of less than 16 KiB must not
 * make a cache many times as large as its content. shares.py has the same bound. */
enum { TEXT_MAX_BYTES = PATH_MAX - 64, SHARED_KEPT_MAX = 4096, SAMPLED = 4096 };
static const double ROUNDED_MOST = 1.25;

/* Returns a copy of a string of the segment, with a NUL; NULL if the string is not inside the
 * segment, or there is no memory. */
static char *copy_text(const struct fan_mounts *mounts, struct fan_shm_string from)
{
    if (from.offset > mounts->segment_bytes || from.bytes > mounts->segment_bytes - from.offset ||
        from.bytes > TEXT_MAX_BYTES)
        return NULL;
    return strndup(mounts->segment + from.offset, from.bytes);
}

/* Loads the codecs before there are threads that decode. A missing library is reported later, when
 * it is needed. */
static void load_codecs(uint32_t mask)
{
    fan_codec_load_with(dlopen);
    for (unsigned codec = 0; codec < FAN_CODEC_COUNT; codec++) {
        if ((mask >> codec & 1) != 0)
            fan_codec_load(codec);
    }
}

static int attach_index(struct fan_node_mount *mount, const struct fan_mount *from,
                        const char *path)
{
    struct fan_fault fault;
    char *base = NULL;
    int rc = fan_map_file(fan_open_file(path, O_RDONLY), PROT_READ, &mount->index_bytes, &base);
    mount->index_base = base;
    if (rc == 0)
        rc = fan_index_attach(&mount->index, base, mount->index_bytes, &fault);
    if (rc == 0 && (mount->index.pack_count != from->pack_count ||
                    mount->index.record_count != from->record_count))
        rc = -EINVAL;
    if (rc == 0)
        load_codecs(mount->index.header->codec_mask);
    return rc;
}

static int attach_mount(const struct fan_mounts *mounts, const struct fan_mount *from,
                        struct fan_node_mount *mount)
{
    uint64_t bytes = mounts->segment_bytes;
    if (!fan_segment_has(bytes, from->places_offset, from->pack_count, sizeof(struct fan_place)) ||
        !fan_segment_has(bytes, from->damage_offset, from->record_count / 64 + 1,
                         sizeof(uint64_t)) ||
        !fan_segment_has(bytes, from->unchecked_offset, from->record_count / 64 + 1,
                         sizeof(uint64_t)))
        return -EINVAL;
    mount->places = (void *)(mounts->segment + from->places_offset);
    mount->damage = (void *)(mounts->segment + from->damage_offset);
    mount->unchecked = (void *)(mounts->segment + from->unchecked_offset);
    mount->staged_dir = copy_text(mounts, from->staged_dir);
    mount->dataset_dir = copy_text(mounts, from->dataset_dir);
    mount->replicas = calloc((size_t)from->pack_count + 1, sizeof(*mount->replicas));
    mount->mapped = calloc((size_t)from->pack_count + 1, sizeof(*mount->mapped));
    mount->shared = calloc((size_t)from->pack_count + 1, sizeof(*mount->shared));
    if (mount->replicas == NULL || mount->mapped == NULL || mount->shared == NULL)
        return -ENOMEM;
    mount->pack_count = from->pack_count;
    mount->crowded = (from->flags & FAN_MOUNT_CROWDED) != 0;
    char *index_path = copy_text(mounts, from->index_path);
    int rc = -EINVAL;
    if (mount->staged_dir != NULL && mount->dataset_dir != NULL && index_path != NULL)
        rc = attach_index(mount, from, index_path);
    free(index_path);
    return rc;
}

/* Returns the record of a file with content, checked against its pack; or NULL. */
static const struct fan_record *content_record(const struct fan_mounts *mounts, uint32_t mount,
                                               uint64_t id)
{
    if (mount >= mounts->count)
        return NULL;
    const struct fan_index *index = &mounts->mounts[mount].index;
    const struct fan_record *record = fan_index_record(index, id);
    if (record == NULL || fan_content_check(index, record) != 0 || record->logical_size == 0)
        return NULL;
    return record;
}

/* Marks all files in packs that an earlier job left as unchecked. There is no client yet. */
static void note_unchecked(struct fan_mounts *mounts, uint32_t number)
{
    struct fan_node_mount *mount = &mounts->mounts[number];
    uint32_t pack = 0;
    while (pack < mount->pack_count && !fan_mount_has_unchecked(mount, pack))
        pack++;
    for (uint64_t id = 0; pack < mount->pack_count && id < mount->index.record_count; id++) {
        if (content_record(mounts, number, id) == NULL ||
            !fan_mount_has_unchecked(mount, fan_mount_record(mount, id)->pack))
            continue;
        mount->unchecked[id / 64] |= UINT64_C(1) << id % 64;
        mount->unchecked_count++;
    }
}

static int attach_all(struct fan_mounts *mounts)
{
    const struct fan_job_header *header = (const void *)mounts->segment;
    const struct fan_mount *from = (const void *)(mounts->segment + header->mounts_offset);
    mounts->mounts = calloc(header->mount_count, sizeof(*mounts->mounts));
    if (mounts->mounts == NULL)
        return -ENOMEM;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < header->mount_count; i++) {
        mounts->count = i + 1;
        rc = attach_mount(mounts, &from[i], &mounts->mounts[i]);
        if (rc == 0 && fan_index_is_planned(&mounts->mounts[i].index))
            fan_originals_begin(&mounts->mounts[i]);
        else if (rc == 0)
            note_unchecked(mounts, i);
    }
    return rc;
}

/* Returns a quarter of the descriptor limit: clients' connections need the others. */
static uint32_t kept_most(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 4 > SHARED_KEPT_MAX)
        return SHARED_KEPT_MAX;
    return (uint32_t)(limit.rlim_cur / 4);
}

int fan_mounts_init(struct fan_mounts *mounts, const char *path)
{
    *mounts = (struct fan_mounts){.kept_most = kept_most()};
    int rc = fan_map_file(fan_open_file(path, O_RDWR), PROT_READ | PROT_WRITE,
                          &mounts->segment_bytes, &mounts->segment);
    if (rc == 0 && !fan_is_job_segment((const void *)mounts->segment, mounts->segment_bytes))
        rc = -EINVAL;
    if (rc == 0)
        rc = attach_all(mounts);
    if (rc != 0)
        fan_mounts_fini(mounts);
    return rc;
}

static void detach_mount(struct fan_node_mount *mount)
{
    for (uint64_t pack = 0; pack < mount->pack_count; pack++) {
        if (mount->mapped[pack] != NULL)
            munmap(mount->mapped[pack], mount->index.packs[pack].file_bytes);
        if (mount->shared[pack] > 0)
            close(mount->shared[pack] - 1);
        free(mount->replicas[pack].ranks);
    }
    fan_share_fini(&mount->share);
    if (mount->index_base != NULL)
        munmap(mount->index_base, mount->index_bytes);
    free(mount->staged_dir);
    free(mount->dataset_dir);
    free(mount->shared);
    free(mount->replicas);
    free(mount->mapped);
}

void fan_mounts_fini(struct fan_mounts *mounts)
{
    for (uint32_t i = 0; i < mounts->count; i++)
        detach_mount(&mounts->mounts[i]);
    free(mounts->mounts);
    if (mounts->segment != NULL)
        munmap(mounts->segment, mounts->segment_bytes);
    *mounts = (struct fan_mounts){0};
}

int fan_mounts_set_replicas(struct fan_mounts *mounts, uint32_t mount, uint32_t pack,
                            const uint32_t *ranks, uint32_t count)
{
    if (mount >= mounts->count || pack >= mounts->mounts[mount].pack_count)
        return -EINVAL;
    uint32_t *copy = malloc(((size_t)count + 1) * sizeof(*copy));
    if (copy == NULL)
        return -ENOMEM;
    if (count > 0)
        memcpy(copy, ranks, count * sizeof(*copy));
    struct fan_replicas *replicas = &mounts->mounts[mount].replicas[pack];
    free(replicas->ranks);
    *replicas = (struct fan_replicas){copy, count};
    return 0;
}

int fan_mounts_request(const struct fan_mounts *mounts, uint64_t file, uint64_t block,
                       struct fan_fetch_request *request)
{
    uint32_t mount = fan_cache_mount(file);
    uint64_t id = fan_cache_record(file);
    const struct fan_record *record = content_record(mounts, mount, id);
    if (record == NULL || block > record->stored_size / FAN_CACHE_BLOCK_BYTES)
        return -EIO;
    uint64_t from = block * FAN_CACHE_BLOCK_BYTES;
    uint64_t rest = record->stored_size - from;
    if (rest == 0)
        return -EIO;
    *request = (struct fan_fetch_request){
        .mount = mount,
        .pack = record->pack,
        .record = id,
        .offset = record->offset + from,
        .bytes = rest < FAN_CACHE_BLOCK_BYTES ? (uint32_t)rest : FAN_CACHE_BLOCK_BYTES,
    };
    return 0;
}

int fan_mounts_narrow(const struct fan_mounts *mounts, struct fan_fetch_request *request,
                      struct fan_piece *part)
{
    const struct fan_record *record =
        fan_mount_record(&mounts->mounts[request->mount], request->record);
    uint32_t granules = (uint32_t)fan_cache_granules(request->bytes);
    if (part->from >= granules)
        return -EIO;
    if (part->count > granules - part->from)
        part->count = granules - part->from;
    if (part->count == 0 || part->count == granules ||
        record->stored_size <= FAN_CACHE_BLOCK_BYTES) {
        *part = (struct fan_piece){0, 0};
        return 0;
    }
    uint32_t skip = part->from * FAN_CACHE_GRANULE_BYTES,
             bytes = part->count * FAN_CACHE_GRANULE_BYTES, rest = request->bytes - skip;
    request->offset += skip;
    request->bytes = bytes < rest ? bytes : rest;
    return 0;
}

int fan_mounts_check(const struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    const struct fan_record *record = content_record(mounts, request->mount, request->record);
    if (record == NULL || record->pack != request->pack || request->offset < record->offset)
        return -EINVAL;
    uint64_t from = request->offset - record->offset;
    if (from > record->stored_size || request->bytes > record->stored_size - from ||
        request->bytes == 0 || request->bytes > FAN_CACHE_BLOCK_BYTES)
        return -EINVAL;
    return 0;
}

bool fan_mounts_has_content(const struct fan_mounts *mounts, uint32_t mount, uint64_t record)
{
    return content_record(mounts, mount, record) != NULL;
}

uint64_t fan_mounts_in_granules(const struct fan_mounts *mounts, uint64_t bytes)
{
    uint64_t content = 0, taken = 0;
    for (uint32_t i = 0; i < mounts->count; i++) {
        uint64_t count = mounts->mounts[i].index.record_count, step = count / SAMPLED + 1;
        for (uint64_t id = 0; id < count; id += step) {
            const struct fan_record *record = content_record(mounts, i, id);
            uint64_t stored = record != NULL ? record->stored_size : 0;
            content += stored * step;
            taken += fan_cache_granules(stored) * FAN_CACHE_GRANULE_BYTES * step;
        }
    }
    double ratio = content > 0 ? (double)taken / (double)content : 1;
    return (uint64_t)((double)bytes * (ratio < ROUNDED_MOST ? ratio : ROUNDED_MOST));
}
