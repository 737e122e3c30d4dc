/*
 * Checks that the stored bytes of a file are undamaged: that they decode to content with the
 * checksum in the index.
 */
#pragma once

#include <stdint.h>

#include "../common/index.h"

/* A source of stored bytes. at: returns `bytes` of them from `offset` on, valid until its next
 * call; NULL if they cannot be read. */
struct fan_stored {
    const char *(*at)(const struct fan_stored *stored, uint64_t offset, uint64_t bytes);
    void *of;
};

/* Returns 0 or -EIO (damaged); -ENODATA (bytes cannot be read), -ENOMEM or -ELIBACC if it cannot
 * decide. First check the record with fan_content_check, and set the loader of codec.h. */
int fan_check_sound(const struct fan_index *index, const struct fan_record *record,
                    const struct fan_stored *stored);

/* Computes the XXH3-64 of a file's content from its stored bytes. Returns as fan_check_sound. */
int fan_content_sum(const struct fan_index *index, const struct fan_record *record,
                    const struct fan_stored *stored, uint64_t *sum);

/* Stored bytes that all lie in memory, at `bytes`. */
struct fan_stored fan_stored_in_memory(const char *bytes);
