/*
 * Reads many small files into one buffer, each to its position in a pack.
 *
 * Uses no lock and no shared state: several threads may gather from one scan at once.
 */
#pragma once

#include <stdint.h>

#include "entries.h"

/* cffi: begin */
enum {
    /* The file's size, times or inode have changed since the scan. Greater than any errno. */
    FAN_GATHER_CHANGED = 4097
};

/* Reads `count` whole files, whose entries are `ids`, to buffer + places[i], and zeroes what
 * lies between the end of one and places[i + 1] (places has count + 1 values, rising). Files of
 * one directory should follow each other. errors[i] is 0, a positive errno, or
 * FAN_GATHER_CHANGED; the place of a file in error is zeroed. Returns the number of files in
 * error, or -ENOMEM. */
int64_t fan_gather(int root_fd, const struct fan_scan_entry *entries, const char *names,
                   const uint64_t *ids, uint64_t count, const uint64_t *places, char *buffer,
                   int32_t *errors);

/* Opens each file for reading and closes it again. errors: as for fan_gather. Returns the number of
 * files in error. */
int64_t fan_gather_try(int root_fd, const struct fan_scan_entry *entries, const char *names,
                       const uint64_t *ids, uint64_t count, int32_t *errors);

/* Opens one file of the scan for reading. Returns a descriptor or -errno. */
int fan_gather_open(int root_fd, const struct fan_scan_entry *entries, const char *names,
                    uint64_t id);

/* Checks that an open file has not changed since the scan. Returns 0, FAN_GATHER_CHANGED, or
 * -errno. */
int fan_gather_check(int fd, const struct fan_scan_entry *entry);
/* cffi: end */
