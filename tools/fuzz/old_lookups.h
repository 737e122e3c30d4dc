/* Makes the sections by which older versions of an index find paths, as writers of these versions
 * did. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../../csrc/prepare/index/lookups.h"

/* Fills zeroed slots of 8 bytes, and sets `max_probe`, which is 0, to the longest probe. */
bool old_slots(const struct fan_named *named, uint64_t *slots, uint64_t slot_count,
               uint32_t *max_probe);

/* The sections of version 2. */
struct old_dentries {
    struct fan_dentry *dentries;
    uint16_t *pilots;
    struct fan_part *parts;
    uint8_t *tags;
};

/* Fills the sections. Returns false if no pilots are found. */
bool old_dentries(const struct fan_named *named, const struct old_dentries *to);
