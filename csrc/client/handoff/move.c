#include "handoff.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "../../common/sys.h"
#include "../content/realcopy.h"
#include "../files/arena.h"
#include "../files/filetable.h"
#include "../files/moved.h"
#include "../files/store.h"
#include "../machine/vfork.h"

/* Returns whether no slot refers to a stored description any more. */
static bool is_stale(const struct fan_store_tag *tag, const void *arena)
{
    const struct fan_slot *slots = arena;
    return tag->slot >= FAN_ARENA_SLOTS || atomic_load(&slots[tag->slot].refs) == 0 ||
           atomic_load(&slots[tag->slot].offset) != tag->key;
}

int fan_move_alone(struct fan_file *file)
{
    int64_t offset = atomic_load(&file->slot->offset);
    if (offset < 0)
        return fan_move_make(file);
    int copy = fan_real_twin(file);
    if (copy >= 0)
        FAN_SYS(lseek, copy, offset, SEEK_SET);
    return copy;
}

/* Returns a key for a description: negative, and used only once. */
static int64_t new_key(void)
{
    uint64_t key = 0;
    struct timespec now;
    if (FAN_SYS(getrandom, &key, sizeof(key), 1 /* the value of GRND_NONBLOCK */) != sizeof(key)) {
        FAN_SYS(clock_gettime, CLOCK_MONOTONIC, &now);
        key = (uint64_t)now.tv_nsec << 32 | (uint64_t)FAN_SYS(gettid);
    }
    return (int64_t)(key | UINT64_C(1) << 63);
}

/* Makes the description of a copy replace the slot's own, at the slot's present offset. Returns 0,
 * or 1 if another process that shares the file did so first. */
static int take_over(struct fan_slot *slot, int copy, int64_t key)
{
    int64_t offset = atomic_load(&slot->offset);
    do {
        if (offset < 0)
            return 1;
        FAN_SYS(lseek, copy, offset, SEEK_SET);
    } while (!atomic_compare_exchange_strong(&slot->offset, &offset, key));
    return 0;
}

/* Stores the description again if it was dropped: before the slot named it, it may have been taken
 * for stale. */
static void keep_kept(int store, const struct fan_store_tag *tag, int copy, const void *arena)
{
    int kept = fan_store_get(store, tag->key);
    if (kept >= 0)
        fan_sys_close(kept);
    else
        fan_store_put(store, tag, copy, is_stale, arena);
}

int fan_move_make(struct fan_file *file)
{
    struct fan_slot *slot = file->slot;
    if (atomic_load(&slot->offset) < 0)
        return fan_moved_fetch(slot);
    struct fan_store_tag tag = {.key = new_key()};
    int store = fan_arena_store(slot, !fan_in_vfork_child());
    const struct fan_slot *arena = fan_arena_base(slot);
    if (store < 0 || arena == NULL)
        return -EMFILE;
    tag.slot = (uint64_t)(slot - arena);
    int copy = fan_real_twin(file);
    if (copy < 0)
        return copy;
    int rc = fan_store_put(store, &tag, copy, is_stale, arena);
    if (rc == 0 && take_over(slot, copy, tag.key) == 0) {
        keep_kept(store, &tag, copy, arena);
        return copy;
    }
    fan_sys_close(copy);
    return rc != 0 ? rc : fan_moved_fetch(slot);
}
