#include "in_place.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "../../common/original.h"
#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "../job/packs.h"
#include "../machine/page.h"
#include "original.h"

bool fan_lies_in_pages(const struct fan_file *file)
{
    const struct fan_record *record = file->record;
    uint64_t size = record->logical_size;
    return record->codec == FAN_CODEC_STORE && record->offset % fan_page_bytes() == 0 &&
           size >= FAN_MAP_THRESHOLD_BYTES && fan_page_up(size) - size < FAN_MAP_ALIGN_BYTES;
}

static int open_original(const struct fan_file *file)
{
    int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC; /* it may be a FIFO by now */
    return fan_original_open(file->view, file->dataset, file->id, flags);
}

/* Returns whether an opened file is still the one for which the index was made. */
static bool is_same(const struct fan_file *file, int fd)
{
    struct stat st;
    const struct fan_dataset *dataset = file->dataset;
    if (FAN_SYS(fstat, fd, &st) != 0)
        return false;
    return dataset->has_originals
               ? fan_stat_state(&st) == file->record->checksum
               : (uint64_t)st.st_size == dataset->index.packs[file->record->pack].file_bytes;
}

int fan_in_place_open(const struct fan_file *file, uint64_t *start)
{
    const struct fan_record *record = file->record;
    bool original = file->dataset->has_originals;
    bool always = fan_view_place(file->view, record->pack) == FAN_PLACE_IN_PLACE;
    if (fan_view_is_far(file->view) ||
        fan_view_bar(file->view, record->pack, file->id) == FAN_DAMAGED ||
        (!always && record->logical_size <= FAN_MAP_COPIED_BYTES) ||
        (!original && !fan_lies_in_pages(file)))
        return -ENOENT;
    *start = original ? 0 : record->offset;
    int fd =
        original ? open_original(file) : fan_pack_open(file->view, record->pack, FAN_PACK_SHARED);
    if (fd >= 0 && !is_same(file, fd)) {
        fan_sys_close(fd);
        fd = -ESTALE;
    }
    return fd;
}
