#include "copies.h"

#include <stdlib.h>
#include <string.h>

#include "../machine/shared.h"
#include "../state/state.h"
#include "../storage/keep.h"

/* Copies that are being written; further ones are dropped, and may come again. */
enum { WRITING_MOST = 8 };

struct copy {
    struct fan_reading reading;
    struct fan_mounts *mounts;
    uint32_t mount;
    uint64_t record;
    char bytes[];
};

static int write_copy(struct fan_reading *reading)
{
    const struct copy *copy = (const struct copy *)reading;
    return fan_keep_copy(copy->mounts, copy->mount, copy->record, copy->bytes);
}

/* Ignores errors: the record is there for the cache, and can come from its rank again. */
static void written(struct fan_node *node, struct fan_reading *reading)
{
    node->copies_writing--;
    free(reading);
}

void fan_copies_take(struct fan_node *node, uint32_t id)
{
    const struct fan_frame *frame = &node->cache.frames[id];
    uint32_t mount = fan_cache_mount(frame->file);
    struct fan_fetch_request request =
        fan_record_request(&node->mounts.mounts[mount], mount, fan_cache_record(frame->file));
    if (frame->bytes != request.bytes || node->copies_writing >= WRITING_MOST ||
        !fan_share_may_copy(&node->mounts, &request))
        return;
    struct copy *copy = malloc(sizeof(*copy) + frame->bytes);
    if (copy == NULL)
        return;
    *copy = (struct copy){
        .reading = {.urgency = FAN_AHEAD, .read = write_copy, .done = written},
        .mounts = &node->mounts,
        .mount = mount,
        .record = request.record,
    };
    memcpy(copy->bytes, fan_blockcache_data(&node->cache, id), frame->bytes);
    if (fan_readers_give(&node->disk, &copy->reading) != 0) {
        free(copy);
        return;
    }
    fan_share_note_copy(&node->mounts, &request);
    node->copies_writing++;
}
