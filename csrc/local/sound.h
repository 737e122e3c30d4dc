/*
 * Whether the stored bytes of a file are those that the dataset was made with: they decode to the
 * content whose checksum is in the index.
 */
#ifndef FAN_LOCAL_SOUND_H
#define FAN_LOCAL_SOUND_H

#include <stdint.h>

#include "../common/index.h"

/* Where stored bytes come from. at: `bytes` of them from `offset` on, good until it is called
 * again; NULL where they cannot be had. */
struct fan_stored {
    const char *(*at)(const struct fan_stored *stored, uint64_t offset, uint64_t bytes);
    void *of;
};

/* 0, -EIO (damaged), or -ENODATA (bytes are not to be had), -ENOMEM or -ELIBACC: it cannot be told.
 * The record was checked against its pack; codec.h has its loader. */
int fan_check_sound(const struct fan_index *index, const struct fan_record *record,
                    const struct fan_stored *stored);

/* The same of stored bytes that lie in memory as a whole. */
int fan_check_sound_in_memory(const struct fan_index *index, const struct fan_record *record,
                              const char *bytes);

#endif
