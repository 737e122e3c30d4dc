#include "blockcache.h"

#include <errno.h>
#include <stdlib.h>

#include "../machine/shared.h"
#include "listing.h"
#include "unread.h"

_Static_assert((int)FAN_NO_FRAME == (int)FAN_NO_SLOT, "the slots of a policy are frames");
_Static_assert((int)FAN_BLOCK_GRANULES == (int)FAN_CACHE_BLOCK_BYTES / FAN_CACHE_GRANULE_BYTES,
               "a block has so many granules");
_Static_assert((int)FAN_GRANULES_RUN_MAX == (int)FAN_BLOCK_GRANULES, "a run holds a block");

static void set_state(struct fan_blockcache *cache, uint32_t id, enum fan_entry_state state)
{
    cache->frames[id].state = (uint8_t)state;
    fan_total_store(&cache->segment->entries[id].state, state);
}

static void count_resident(struct fan_blockcache *cache, int64_t granules)
{
    struct fan_cache_header *header = cache->segment->header;
    cache->resident_bytes += (uint64_t)(granules * FAN_CACHE_GRANULE_BYTES);
    if (cache->resident_bytes > cache->peak_resident_bytes)
        cache->peak_resident_bytes = cache->resident_bytes;
    fan_put64(&header->resident_bytes, cache->resident_bytes);
    fan_put64(&header->peak_resident_bytes, cache->peak_resident_bytes);
}

static uint64_t offset_of(const struct fan_blockcache *cache, const struct fan_frame *frame)
{
    uint64_t granule = (uint64_t)cache->area_start[frame->area] + frame->start;
    return cache->segment->data_offset + granule * FAN_CACHE_GRANULE_BYTES;
}

static uint32_t *chain_of(const struct fan_blockcache *cache, uint64_t file)
{
    return &cache->files[fan_cache_hash(file, 0) & cache->file_mask];
}

static void join_siblings(struct fan_blockcache *cache, uint32_t id)
{
    struct fan_frame *frame = &cache->frames[id];
    uint32_t *first = chain_of(cache, frame->file);
    frame->sibling_before = FAN_NO_FRAME;
    frame->sibling = *first;
    if (*first != FAN_NO_FRAME)
        cache->frames[*first].sibling_before = id;
    *first = id;
    fan_listing_count(cache, frame, 1);
}

static void leave_siblings(struct fan_blockcache *cache, uint32_t id)
{
    const struct fan_frame *frame = &cache->frames[id];
    if (frame->sibling_before == FAN_NO_FRAME)
        *chain_of(cache, frame->file) = frame->sibling;
    else
        cache->frames[frame->sibling_before].sibling = frame->sibling;
    if (frame->sibling != FAN_NO_FRAME)
        cache->frames[frame->sibling].sibling_before = frame->sibling_before;
    fan_listing_count(cache, frame, -1);
}

/* Takes granules of an area, and memory for them. Granules without memory are not tried again: the
 * cache keeps the size that it has reached. */
static int64_t take_granules(struct fan_blockcache *cache, unsigned area, uint32_t count)
{
    int64_t start;
    do {
        start = fan_granules_take(&cache->areas[area], count);
    } while (start >= 0 && fan_segment_take(cache->segment,
                                            cache->area_start[area] + (uint32_t)start, count) != 0);
    return start;
}

static bool take_room(struct fan_blockcache *cache, struct fan_frame *frame, uint32_t granules,
                      unsigned area)
{
    int64_t start = take_granules(cache, area, granules);
    if (start < 0)
        return false;
    frame->area = (uint8_t)area;
    frame->start = (uint32_t)start;
    return true;
}

static struct fan_frames *filling_with(struct fan_blockcache *cache, uint32_t id)
{
    return &cache->filling[cache->frames[id].source];
}

uint32_t fan_blockcache_begin_fill(struct fan_blockcache *cache, const struct fan_fill *fill)
{
    uint32_t id = fan_blockcache_begin_fill_in(cache, fill, FAN_AREA_STAYING);
    return id != FAN_NO_FRAME ? id : fan_blockcache_begin_fill_in(cache, fill, FAN_AREA_PASSING);
}

uint32_t fan_blockcache_begin_fill_in(struct fan_blockcache *cache, const struct fan_fill *fill,
                                      unsigned area)
{
    uint32_t id = cache->free.head;
    uint32_t granules = fan_granules_for(fill->bytes);
    if (id == FAN_NO_FRAME || !take_room(cache, &cache->frames[id], granules, area))
        return FAN_NO_FRAME;
    struct fan_frame *frame = &cache->frames[id];
    fan_frames_detach(cache->frames, &cache->free, id);
    frame->source = (uint8_t)fill->source;
    fan_frames_append(cache->frames, filling_with(cache, id), id);
    frame->file = fill->file;
    frame->block = fill->block;
    frame->bytes = fill->bytes;
    frame->from = (uint8_t)fill->part.from;
    frame->piece = fill->part.count > 0;
    frame->generation++;
    frame->awaited = 0;
    frame->key = fan_staying_key(fill->source, fill->next_use);
    fan_staying_own(cache, id, true);
    set_state(cache, id, FAN_ENTRY_FILLING);
    count_resident(cache, granules);
    return id;
}

void *fan_blockcache_data(const struct fan_blockcache *cache, uint32_t id)
{
    return cache->segment->base + offset_of(cache, &cache->frames[id]);
}

/* Returns whether a ready frame is among the blocks that may be evicted. */
static bool may_go(const struct fan_blockcache *cache, uint32_t id)
{
    return cache->segment->passing == 0 || cache->frames[id].area == FAN_AREA_PASSING;
}

uint32_t fan_blockcache_passing(const struct fan_blockcache *cache)
{
    return cache->areas[cache->segment->passing > 0 ? FAN_AREA_PASSING : FAN_AREA_STAYING].count;
}

void fan_blockcache_fill_done(struct fan_blockcache *cache, uint32_t id)
{
    struct fan_frame *frame = &cache->frames[id];
    struct fan_cache_entry *entry = &cache->segment->entries[id];
    fan_put64(&entry->file, frame->file);
    fan_put64(&entry->block, frame->block);
    fan_put64(&entry->offset, offset_of(cache, frame));
    fan_put32(&entry->bytes, frame->bytes);
    fan_put32(&entry->from, frame->from);
    fan_put32(&entry->touched, 0);
    set_state(cache, id, FAN_ENTRY_READY);
    fan_frames_detach(cache->frames, filling_with(cache, id), id);
    join_siblings(cache, id);
    bool listed = fan_listing_enter(cache, id);
    fan_staying_enter(cache, id);
    if (!may_go(cache, id))
        return;
    fan_victims_enter(&cache->victims, id);
    if (!listed)
        fan_victims_close(&cache->victims, id);
}

/* Frees a frame that is in no list. */
static void set_free(struct fan_blockcache *cache, uint32_t id)
{
    struct fan_frame *frame = &cache->frames[id];
    uint32_t granules = fan_granules_for(frame->bytes);
    fan_staying_own(cache, id, false);
    set_state(cache, id, FAN_ENTRY_FREE);
    fan_granules_give(&cache->areas[frame->area], frame->start, granules);
    count_resident(cache, -(int64_t)granules);
    fan_frames_prepend(cache->frames, &cache->free, id);
}

void fan_blockcache_release(struct fan_blockcache *cache, uint32_t id)
{
    if (cache->frames[id].state == FAN_ENTRY_QUARANTINED)
        cache->quarantined[cache->frames[id].source]--;
    else
        fan_frames_detach(cache->frames, filling_with(cache, id), id);
    set_free(cache, id);
}

void fan_blockcache_quarantine(struct fan_blockcache *cache, uint32_t id)
{
    fan_frames_detach(cache->frames, filling_with(cache, id), id);
    cache->quarantined[cache->frames[id].source]++;
    set_state(cache, id, FAN_ENTRY_QUARANTINED);
}

void fan_blockcache_use(struct fan_blockcache *cache, uint32_t id)
{
    fan_unread_leave(cache, id);
    if (may_go(cache, id))
        fan_victims_use(&cache->victims, id);
}

bool fan_blockcache_stays(const struct fan_blockcache *cache, uint32_t id)
{
    return !may_go(cache, id);
}

/* Returns whether a client or order will probably read a block whose file no client has open. */
static bool is_kept(struct fan_blockcache *cache, uint32_t id)
{
    return cache->frames[id].awaited > 0 || fan_unread_is(cache, id);
}

void fan_blockcache_await(struct fan_blockcache *cache, uint32_t id)
{
    fan_staying_leave(cache, id);
    cache->frames[id].awaited++;
    if (may_go(cache, id) && fan_unread_is(cache, id))
        return;
    fan_put32(&cache->segment->entries[id].touched, 0);
    if (!may_go(cache, id))
        return;
    fan_victims_leave(&cache->victims, id); /* it comes back as a block of an open file */
    fan_victims_enter(&cache->victims, id);
    fan_unread_enter(cache, id);
}

void fan_blockcache_unawait(struct fan_blockcache *cache, uint32_t id)
{
    if (--cache->frames[id].awaited > 0)
        return;
    fan_put32(&cache->segment->entries[id].touched, 0); /* the foreseen use itself had set it */
    fan_staying_enter(cache, id);
}

bool fan_blockcache_spare(struct fan_blockcache *cache, uint32_t id)
{
    bool kept = is_kept(cache, id);
    if (kept)
        fan_victims_use(&cache->victims, id);
    return kept;
}

static bool is_ready_block_of(const struct fan_blockcache *cache, uint32_t id, uint64_t file)
{
    return cache->frames[id].file == file && cache->frames[id].state == FAN_ENTRY_READY;
}

void fan_blockcache_foresee(struct fan_blockcache *cache, uint64_t file, uint32_t next_use)
{
    uint32_t id = *chain_of(cache, file);
    for (; id != FAN_NO_FRAME; id = cache->frames[id].sibling) {
        if (cache->frames[id].file == file && !cache->frames[id].piece)
            fan_staying_foresee(cache, id, next_use);
    }
}

void fan_blockcache_close(struct fan_blockcache *cache, uint64_t file)
{
    uint32_t id = *chain_of(cache, file);
    for (; id != FAN_NO_FRAME; id = cache->frames[id].sibling) {
        if (is_ready_block_of(cache, id, file))
            fan_blockcache_close_one(cache, id);
    }
}

void fan_blockcache_close_one(struct fan_blockcache *cache, uint32_t id)
{
    if (may_go(cache, id) && !is_kept(cache, id))
        fan_victims_close(&cache->victims, id);
}

void fan_blockcache_doom(struct fan_blockcache *cache, uint32_t id)
{
    struct fan_frame *frame = &cache->frames[id];
    fan_unread_leave(cache, id);
    fan_staying_leave(cache, id);
    set_state(cache, id, FAN_ENTRY_EVICTING);
    frame->pinned = false;
    if (may_go(cache, id))
        fan_victims_leave(&cache->victims, id);
    fan_frames_append(cache->frames, &cache->doomed, id);
}

static void mark_pinned(struct fan_blockcache *cache, const struct fan_session *session)
{
    for (unsigned i = 0; i < FAN_SESSION_PINS; i++) {
        const struct fan_pin *pin = &session->pins[i];
        if (fan_total_load(&pin->state) != FAN_PIN_HELD)
            continue;
        uint32_t id = fan_relaxed32(&pin->entry);
        if (id < cache->segment->entry_count)
            cache->frames[id].pinned = true;
    }
}

/* Makes a doomed frame ready again because it is pinned. Tells the policy again if no client has
 * the block's file open any more. */
static void make_ready_again(struct fan_blockcache *cache, uint32_t id)
{
    bool closed = cache->victims.slots[id].closed;
    set_state(cache, id, FAN_ENTRY_READY);
    fan_staying_enter(cache, id);
    if (!may_go(cache, id))
        return;
    fan_victims_enter(&cache->victims, id);
    if (closed)
        fan_victims_close(&cache->victims, id);
}

uint32_t fan_blockcache_reap(struct fan_blockcache *cache, const struct fan_live *live)
{
    uint32_t freed = 0;
    if (cache->doomed.count == 0)
        return 0;
    for (uint32_t i = 0; i < live->count; i++)
        mark_pinned(cache, &cache->segment->sessions[live->sessions[i]]);
    while (cache->doomed.count > 0) {
        uint32_t id = cache->doomed.head;
        fan_frames_detach(cache->frames, &cache->doomed, id);
        if (cache->frames[id].pinned || cache->frames[id].sending > 0) {
            make_ready_again(cache, id);
            continue;
        }
        fan_listing_remove(cache, id);
        leave_siblings(cache, id);
        set_free(cache, id);
        freed++;
    }
    cache->evicted += freed;
    return freed;
}

void fan_blockcache_forget(struct fan_blockcache *cache, uint64_t file, const struct fan_live *live)
{
    uint32_t id = *chain_of(cache, file);
    for (; id != FAN_NO_FRAME; id = cache->frames[id].sibling) {
        if (!is_ready_block_of(cache, id, file))
            continue;
        fan_listing_remove(cache, id);
        fan_blockcache_doom(cache, id);
    }
    fan_blockcache_reap(cache, live);
}

/* Initialises the policies. Under belady there are two, one for each area. */
static int make_victims(struct fan_blockcache *cache, enum fan_policy policy)
{
    uint32_t count = cache->segment->most;
    bool foresees = policy == FAN_POLICY_BELADY;
    int rc = fan_victims_init(&cache->victims, foresees ? FAN_POLICY_MINIO : policy, count);
    if (rc == 0 && foresees)
        rc = fan_staying_init(&cache->staying, count, cache->area_start[FAN_AREA_PASSING]);
    return rc;
}

/* Makes the table of chains of siblings: as many chains as the segment has buckets. */
static int make_chains(struct fan_blockcache *cache)
{
    uint32_t count = cache->segment->bucket_count;
    cache->files = malloc(count * sizeof(*cache->files));
    if (cache->files == NULL)
        return -ENOMEM;
    cache->file_mask = count - 1;
    for (uint32_t i = 0; i < count; i++)
        cache->files[i] = FAN_NO_FRAME;
    return 0;
}

/* Adds the last `frames` frames, and so many granules of the first area, as free ones. */
static void add_free(struct fan_blockcache *cache, uint32_t frames, uint32_t granules)
{
    struct fan_granules *staying = &cache->areas[FAN_AREA_STAYING];
    fan_staying_add(&cache->staying, staying->count, granules);
    fan_granules_add(staying, granules);
    for (uint32_t id = cache->segment->entry_count - frames; frames > 0; frames--)
        fan_frames_append(cache->frames, &cache->free, id++);
}

int fan_blockcache_init(struct fan_blockcache *cache, struct fan_segment *segment,
                        enum fan_policy policy)
{
    const struct fan_frames none = {FAN_NO_FRAME, FAN_NO_FRAME, 0};
    uint32_t count = segment->entry_count, most = segment->most, passing = segment->passing;
    *cache = (struct fan_blockcache){.segment = segment,
                                     .free = none,
                                     .filling = {none, none},
                                     .doomed = none,
                                     .unread = none,
                                     .area_start = {[FAN_AREA_PASSING] = most - passing}};
    cache->frames = calloc(most, sizeof(*cache->frames));
    if (cache->frames == NULL || make_chains(cache) != 0 || make_victims(cache, policy) != 0 ||
        fan_granules_init(&cache->areas[FAN_AREA_STAYING], 0, most - passing) != 0 ||
        fan_granules_init(&cache->areas[FAN_AREA_PASSING], passing, passing) != 0) {
        fan_blockcache_fini(cache);
        return -ENOMEM;
    }
    add_free(cache, count, count - passing);
    return 0;
}

void fan_blockcache_grow(struct fan_blockcache *cache, uint64_t content_bytes)
{
    if (cache->areas[FAN_AREA_KEPT].count > 0)
        return;
    uint32_t more = fan_segment_grow(cache->segment, content_bytes);
    add_free(cache, more, more);
}

int fan_blockcache_keep(struct fan_blockcache *cache, uint64_t granules)
{
    uint32_t room = cache->areas[FAN_AREA_STAYING].count;
    uint32_t kept = granules < room ? (uint32_t)granules : room;
    if (kept == 0 || cache->segment->passing == 0)
        return 0;
    fan_granules_fini(&cache->areas[FAN_AREA_STAYING]);
    cache->area_start[FAN_AREA_KEPT] = room - kept;
    int rc = fan_granules_init(&cache->areas[FAN_AREA_STAYING], room - kept, room - kept);
    return rc != 0 ? rc : fan_granules_init(&cache->areas[FAN_AREA_KEPT], kept, kept);
}

void fan_blockcache_fini(struct fan_blockcache *cache)
{
    free(cache->frames);
    free(cache->files);
    fan_victims_fini(&cache->victims);
    fan_staying_fini(&cache->staying);
    for (unsigned area = 0; area < FAN_CACHE_AREAS; area++)
        fan_granules_fini(&cache->areas[area]);
    *cache = (struct fan_blockcache){0};
}
