#include "disk_ahead.h"

#include <stdlib.h>

#include "../state/state.h"
#include "../storage/staged.h"

enum { READING_MOST = 8 };

struct disk_reading {
    struct fan_reading reading;
    const struct fan_mounts *mounts;
    struct fan_fetch_request request;
};

bool fan_disk_ahead_serves(const struct fan_node *node, const struct fan_fetch_request *whole)
{
    const struct fan_node_mount *mount = &node->mounts.mounts[whole->mount];
    return fan_staged_has(mount, whole) || fan_share_wants(&node->mounts, whole);
}

static int read_pages(struct fan_reading *reading)
{
    const struct disk_reading *disk = (const struct disk_reading *)reading;
    return fan_staged_read(disk->mounts, &disk->request);
}

/* Ignores errors of reading ahead: the program that reads the file gets them. */
static void pages_read(struct fan_node *node, struct fan_reading *reading)
{
    node->disk_ahead--;
    free(reading);
}

static bool begin(struct fan_node *node, const struct fan_fetch_request *request)
{
    struct disk_reading *disk = malloc(sizeof(*disk));
    if (disk == NULL)
        return false;
    *disk = (struct disk_reading){
        .reading = {.urgency = FAN_AHEAD, .read = read_pages, .done = pages_read},
        .mounts = &node->mounts,
        .request = *request,
    };
    if (fan_readers_give(&node->disk, &disk->reading) != 0) {
        free(disk);
        return false;
    }
    node->disk_ahead++;
    return true;
}

enum fan_bring fan_disk_keep(struct fan_node *node, const struct fan_fetch_request *request)
{
    if (fan_share_fill_is_busy(&node->share_fill))
        return FAN_BRING_LATER;
    int rc = fan_share_fill_add(&node->share_fill, request->mount, &request->record, 1, FAN_DEMAND);
    return rc > 0 ? FAN_BRING : FAN_BRING_NOWHERE;
}

enum fan_bring fan_disk_ahead(struct fan_node *node, const struct fan_fetch_request *whole)
{
    const struct fan_node_mount *mount = &node->mounts.mounts[whole->mount];
    if (!fan_staged_has(mount, whole))
        return fan_disk_keep(node, whole);
    struct fan_fetch_request piece = *whole;
    bool begun = false;
    if (node->disk_ahead >= READING_MOST)
        return FAN_BRING_LATER;
    for (uint64_t at = 0; at < whole->bytes; at += piece.bytes) {
        uint64_t left = whole->bytes - at;
        piece.offset = whole->offset + at;
        piece.bytes = left < FAN_CACHE_BLOCK_BYTES ? (uint32_t)left : FAN_CACHE_BLOCK_BYTES;
        if (fan_staged_admit(&node->mounts, &piece) != 0)
            return FAN_BRING_NOWHERE;
        if (!fan_staged_is_in_memory(&node->mounts, &piece))
            begun |= begin(node, &piece);
    }
    return begun ? FAN_BRING : FAN_BRING_THERE;
}
