#include "marks.h"

#include "../machine/shared.h"

bool fan_mounts_is_damaged(const struct fan_mounts *mounts, uint32_t number, uint64_t record)
{
    const struct fan_node_mount *mount = &mounts->mounts[number];
    uint32_t pack = mount->index.records[record].pack;
    if ((fan_acquire32(&mount->places[pack].flags) & FAN_PLACE_HAS_DAMAGE) == 0)
        return false;
    uint64_t word = fan_relaxed64(&mount->damage[record / 64]);
    return (word >> record % 64 & 1) != 0;
}

bool fan_mount_is_at_neighbour(const struct fan_node_mount *mount, uint64_t id)
{
    uint32_t flags = fan_acquire32(&mount->places[fan_mount_record(mount, id)->pack].flags);
    return (flags & FAN_PLACE_AT_NEIGHBOUR) != 0;
}

bool fan_mount_is_unchecked(const struct fan_node_mount *mount, uint64_t id)
{
    uint32_t pack = fan_mount_record(mount, id)->pack;
    if (fan_acquire32(&mount->places[pack].state) == FAN_PLACE_PARTIAL)
        return mount->share.starts != NULL && fan_partial_is_claimed(&mount->share.partial, id);
    if (!fan_mount_has_unchecked(mount, pack))
        return false;
    uint64_t word = __atomic_load_n(&mount->unchecked[id / 64], __ATOMIC_ACQUIRE);
    return (word >> id % 64 & 1) != 0;
}

/* When all records are checked, clients are told to ignore the bits. */
void fan_mount_note_checked(struct fan_node_mount *mount, uint64_t id)
{
    uint64_t bit = UINT64_C(1) << id % 64;
    if ((__atomic_fetch_and(&mount->unchecked[id / 64], ~bit, __ATOMIC_RELEASE) & bit) == 0 ||
        __atomic_sub_fetch(&mount->unchecked_count, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (uint32_t pack = 0; pack < mount->pack_count; pack++)
        __atomic_fetch_and(&mount->places[pack].flags, ~(uint32_t)FAN_PLACE_HAS_UNCHECKED,
                           __ATOMIC_RELEASE);
}

void fan_mounts_mark_damaged(struct fan_mounts *mounts, uint32_t number, uint64_t record)
{
    struct fan_node_mount *mount = &mounts->mounts[number];
    uint64_t bit = UINT64_C(1) << record % 64;
    uint32_t pack = mount->index.records[record].pack;
    if ((__atomic_fetch_or(&mount->damage[record / 64], bit, __ATOMIC_RELAXED) & bit) == 0)
        fan_count64(&mounts->counts.damaged_records, 1);
    __atomic_fetch_or(&mount->places[pack].flags, FAN_PLACE_HAS_DAMAGE, __ATOMIC_RELEASE);
}
