#include "unread.h"

#include "../machine/shared.h"
#include "blockcache.h"

enum { LOOKS = 32 };

void fan_unread_enter(struct fan_blockcache *cache, uint32_t id)
{
    struct fan_frame *frame = &cache->frames[id];
    frame->unread = true;
    fan_frames_append(cache->frames, &cache->unread, id);
    cache->unread_granules += fan_granules_for(frame->bytes);
}

void fan_unread_leave(struct fan_blockcache *cache, uint32_t id)
{
    struct fan_frame *frame = &cache->frames[id];
    if (!frame->unread)
        return;
    frame->unread = false;
    fan_frames_detach(cache->frames, &cache->unread, id);
    cache->unread_granules -= fan_granules_for(frame->bytes);
}

bool fan_unread_is(struct fan_blockcache *cache, uint32_t id)
{
    if (cache->frames[id].unread && fan_relaxed32(&cache->segment->entries[id].touched) != 0)
        fan_unread_leave(cache, id);
    return cache->frames[id].unread;
}

bool fan_unread_take_touched(struct fan_blockcache *cache, uint32_t id)
{
    uint32_t *touched = &cache->segment->entries[id].touched;
    if (fan_relaxed32(touched) == 0)
        return false;
    fan_put32(touched, 0);
    fan_unread_leave(cache, id);
    return true;
}

uint32_t fan_unread_granules(struct fan_blockcache *cache)
{
    for (unsigned i = 0; i < LOOKS && cache->unread.count > 0; i++) {
        uint32_t id = cache->unread.head;
        if (!fan_unread_is(cache, id))
            continue;
        fan_frames_detach(cache->frames, &cache->unread, id);
        fan_frames_append(cache->frames, &cache->unread, id);
    }
    return cache->unread_granules;
}
