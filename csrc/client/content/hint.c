#include "content_io.h"

#include <sys/mman.h>

#include "../../common/sys.h"
#include "../../format/cache_format.h"
#include "../../format/pack_format.h"
#include "../files/filetable.h"
#include "../job/packs.h"
#include "../machine/page.h"
#include "remote.h"

/* A range of a file's stored bytes. */
struct range {
    uint64_t offset;
    uint64_t bytes;
};

/* Estimates which stored bytes of a compressed file hold a part of its content: in proportion, with
 * one more block on either side. The exact range is in the block table, which may have to be
 * fetched first. */
static struct range guess(const struct fan_record *record, uint64_t from, uint64_t to)
{
    __uint128_t stored = record->stored_size;
    uint64_t first = (uint64_t)(from * stored / record->logical_size);
    uint64_t end = (uint64_t)(to * stored / record->logical_size) + FAN_CACHE_BLOCK_BYTES;
    first = first > FAN_CACHE_BLOCK_BYTES ? first - FAN_CACHE_BLOCK_BYTES : 0;
    end = end < record->stored_size ? end : record->stored_size;
    return (struct range){first, end - first};
}

/* Returns the stored bytes of a part of a file; an empty range if the part is outside the file. */
static struct range stored_range(const struct fan_record *record, int64_t offset, int64_t bytes)
{
    uint64_t size = record->logical_size, from = (uint64_t)offset;
    if (offset < 0 || from >= size)
        return (struct range){0, 0};
    uint64_t to = bytes > 0 && (uint64_t)bytes < size - from ? from + (uint64_t)bytes : size;
    return record->codec == FAN_CODEC_STORE ? (struct range){from, to - from}
                                            : guess(record, from, to);
}

/* Makes the kernel begin to read the pages of a mapped pack that are not in memory. */
static void hint_mapped(const char *data, struct range range)
{
    uintptr_t at = (uintptr_t)data + range.offset;
    size_t before = at % fan_page_bytes();
    FAN_SYS(madvise, at - before, before + range.bytes, MADV_WILLNEED);
}

static void hint_unmapped(struct fan_file *file, enum fan_pack_copy copy, struct range range)
{
    int fd = fan_pack_fd(file->view, file->dataset, file->record->pack, copy);
    if (fd >= 0)
        FAN_SYS(fadvise64, fd, file->record->offset + range.offset, range.bytes,
                POSIX_FADV_WILLNEED);
}

static void hint_elsewhere(const struct fan_file *file, struct range range)
{
    if (file->record->codec != FAN_CODEC_STORE && range.offset > 0)
        fan_remote_hint(file, 0, 1); /* block 0 holds the block table */
    fan_remote_hint(file, range.offset, range.bytes);
}

static void hint_place(struct fan_file *file, struct range range)
{
    uint32_t pack = file->record->pack;
    const char *base;
    switch (fan_view_place(file->view, pack)) {
    case FAN_PLACE_STAGED:
        hint_unmapped(file, FAN_PACK_STAGED, range);
        break;
    case FAN_PLACE_IN_PLACE:
        hint_unmapped(file, FAN_PACK_SHARED, range);
        break;
    case FAN_PLACE_PARTIAL:
        base = fan_pack_map_partial(file->view, file->dataset, pack, file->id);
        if (base != NULL)
            hint_mapped(base + file->record->offset, range);
        else
            hint_elsewhere(file, range);
        break;
    case FAN_PLACE_REMOTE:
        hint_elsewhere(file, range);
        break;
    default:
        break;
    }
}

void fan_hint(struct fan_file *file, int64_t offset, int64_t bytes)
{
    struct range range = stored_range(file->record, offset, bytes);
    if (range.bytes == 0)
        return;
    atomic_fetch_add(&file->waiting, 1);
    const char *data = file->data;
    if (data != NULL)
        hint_mapped(data, range);
    else if (fan_view_bar(file->view, file->record->pack, file->id) == FAN_NOT_BARRED)
        hint_place(file, range);
    atomic_fetch_sub(&file->waiting, 1);
}
