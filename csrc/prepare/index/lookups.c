#include "lookups.h"

#include <errno.h>

#include "../../common/index.h"

int fan_hash_paths(const struct fan_named *named)
{
    const struct fan_index index = {.names = named->names, .names_bytes = named->names_bytes};
    named->path_hashes[0] = FAN_PATH_HASH_ROOT;
    for (uint64_t id = 1; id < named->record_count; id++) {
        const struct fan_record *record = &named->records[id];
        const char *name;
        size_t bytes;
        if (record->parent >= id || fan_index_name(&index, record, &name, &bytes) != 0)
            return -EINVAL;
        named->path_hashes[id] =
            fan_path_hash_step(named->path_hashes[record->parent], name, bytes);
    }
    return 0;
}

static int put_slot(uint32_t *slots, uint64_t slot_count, uint64_t hash, uint32_t slot,
                    uint32_t *max_probe)
{
    uint64_t at = fan_first_slot(hash, slot_count);
    for (uint64_t probe = 0; probe < slot_count; probe++) {
        if (slots[at] == 0) {
            slots[at] = slot;
            if (probe > *max_probe)
                *max_probe = (uint32_t)probe;
            return 0;
        }
        if (++at == slot_count)
            at = 0;
    }
    return -EINVAL;
}

int fan_fill_slots(const struct fan_named *named, uint32_t *slots, uint64_t slot_count,
                   uint32_t *max_probe)
{
    unsigned id_bits = fan_slot_id_bits(named->record_count);
    int rc = 0;
    *max_probe = 0;
    for (uint64_t id = 1; rc == 0 && id < named->record_count; id++) {
        uint64_t hash = named->path_hashes[id];
        uint32_t slot = (uint32_t)(hash << id_bits | (id + 1));
        rc = put_slot(slots, slot_count, hash, slot, max_probe);
    }
    return rc;
}

void fan_fill_milestones(const struct fan_named *named, uint64_t *milestones)
{
    uint64_t last = fan_milestone_count(named->record_count) - 1;
    for (uint64_t i = 0; i < last; i++)
        milestones[i] = named->records[i * FAN_RECORDS_PER_MILESTONE].name_offset;
    milestones[last] = named->names_bytes;
}
