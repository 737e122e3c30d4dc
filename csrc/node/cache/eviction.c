#include "eviction.h"

#include "../machine/shared.h"
#include "../machine/transport.h"
#include "unread.h"

enum { PAUSE_NS = 1000000 }; /* between two checks for files that clients closed */
enum { ROOM_SHARE = 64, DOOMED_MAX = 64 };

void fan_eviction_init(struct fan_eviction *eviction, struct fan_blockcache *cache,
                       const struct fan_live *live)
{
    *eviction = (struct fan_eviction){.cache = cache, .live = live};
}

static bool follows_opens(const struct fan_eviction *eviction)
{
    return fan_policy_follows_opens(eviction->cache->victims.policy);
}

static bool has_open(const struct fan_session *session, uint64_t file)
{
    unsigned first = fan_session_place(file);
    for (unsigned place = first; place < first + FAN_SESSION_WAYS; place++) {
        if (fan_acquire64(&session->files[place]) == file)
            return true;
    }
    return false;
}

bool fan_eviction_is_open(const struct fan_eviction *eviction, uint64_t file)
{
    const struct fan_session *sessions = eviction->cache->segment->sessions;
    bool open = false;
    for (uint32_t i = 0; i < eviction->live->count && !open; i++)
        open = has_open(&sessions[eviction->live->sessions[i]], file);
    return open;
}

void fan_eviction_check(struct fan_eviction *eviction, uint64_t file)
{
    if (!fan_eviction_is_open(eviction, file))
        fan_blockcache_close(eviction->cache, file);
}

/* Frees the place of a closed file in a session. */
static void take_closed(struct fan_eviction *eviction, struct fan_session *session, unsigned place)
{
    uint64_t file = fan_acquire64(&session->files[place]);
    fan_put64(&session->files[place], 0);
    if (file != 0)
        fan_eviction_check(eviction, file);
}

static void take_all_closed(struct fan_eviction *eviction)
{
    for (uint32_t i = 0; i < eviction->live->count; i++) {
        struct fan_session *session =
            &eviction->cache->segment->sessions[eviction->live->sessions[i]];
        for (unsigned word = 0; word < FAN_SESSION_FILES / 64; word++) {
            if (fan_relaxed64(&session->closed[word]) == 0)
                continue;
            for (uint64_t left = fan_take64(&session->closed[word]); left != 0; left &= left - 1)
                take_closed(eviction, session, word * 64 + (unsigned)__builtin_ctzll(left));
        }
    }
}

/* Evicts the blocks that the policy does not keep. Returns how many. */
static uint32_t drop_unneeded(struct fan_eviction *eviction)
{
    struct fan_blockcache *cache = eviction->cache;
    uint32_t id;
    take_all_closed(eviction);
    while ((id = fan_victims_unneeded(&cache->victims)) != FAN_NO_SLOT)
        fan_blockcache_doom(cache, id);
    return fan_blockcache_reap(cache, eviction->live);
}

bool fan_eviction_advance(struct fan_eviction *eviction, uint64_t now_ns)
{
    if (!follows_opens(eviction) || now_ns < eviction->next_ns)
        return false;
    eviction->next_ns = now_ns + PAUSE_NS;
    return drop_unneeded(eviction) > 0;
}

/* Dooms the next victims of the policy, until they hold `granules`. Passes over a block once that a
 * client has used since the last call, or that is unread. `budget`: how many blocks may still be
 * looked at. */
static void doom_next(struct fan_eviction *eviction, uint32_t granules, uint32_t *budget)
{
    struct fan_blockcache *cache = eviction->cache;
    uint32_t found = 0;
    while (*budget > 0 && cache->victims.count > 0 && found < granules &&
           cache->doomed.count < DOOMED_MAX) {
        uint32_t id = fan_victims_next(&cache->victims);
        (*budget)--;
        if (cache->victims.policy != FAN_POLICY_RANDOM && fan_unread_take_touched(cache, id)) {
            fan_blockcache_use(cache, id);
            continue;
        }
        if (*budget > cache->victims.count && fan_blockcache_spare(cache, id))
            continue;
        found += fan_granules_for(cache->frames[id].bytes);
        fan_blockcache_doom(cache, id);
    }
}

/* Returns how many granules to evict. In a large cache these are more than needed, so that one look
 * at all pins serves many fills. */
static uint32_t room_wanted(const struct fan_eviction *eviction, uint32_t bytes)
{
    uint32_t share = fan_blockcache_passing(eviction->cache) / ROOM_SHARE;
    uint32_t needed = fan_granules_for(bytes);
    return needed > share ? needed : share;
}

/* Evicts blocks, also of open files, until there is adjacent room for the new one. */
static uint32_t fill_by_force(struct fan_eviction *eviction, const struct fan_fill *fill)
{
    struct fan_blockcache *cache = eviction->cache;
    uint32_t budget = 2 * cache->victims.count;
    uint32_t id = FAN_NO_FRAME;
    while (id == FAN_NO_FRAME && budget > 0 && cache->victims.count > 0) {
        doom_next(eviction, room_wanted(eviction, fill->bytes), &budget);
        if (fan_blockcache_reap(cache, eviction->live) > 0)
            id = fan_blockcache_begin_fill(cache, fill);
    }
    return id;
}

uint32_t fan_eviction_begin_fill(struct fan_eviction *eviction, const struct fan_fill *fill)
{
    struct fan_blockcache *cache = eviction->cache;
    uint32_t id =
        fill->kept ? fan_blockcache_begin_fill_in(cache, fill, FAN_AREA_KEPT) : FAN_NO_FRAME;
    if (id == FAN_NO_FRAME)
        id = fan_replacing_begin_fill(cache, fill, eviction->live);
    if (fill->replaces)
        return id;
    if (id == FAN_NO_FRAME)
        id = fan_blockcache_begin_fill(cache, fill);
    if (id == FAN_NO_FRAME && follows_opens(eviction) && drop_unneeded(eviction) > 0)
        id = fan_blockcache_begin_fill(cache, fill);
    if (id == FAN_NO_FRAME && (fill->urgency == FAN_DEMAND || !follows_opens(eviction)))
        id = fill_by_force(eviction, fill);
    return id;
}
