/*
 * mmap(2) of a file of the mount: pages of the pack itself where the file lies page by page in it,
 * else of a copy in a memory file (inputs never change, so the two cannot be told apart).
 */
#ifndef FAN_CLIENT_MAPPING_H
#define FAN_CLIENT_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_MAP_COPY "fanstore-map" /* the name of memory files: mapped.h knows them by it */

struct fan_file;

/* The address, or a value from -4095 to -1. */
long fan_mmap(struct fan_file *file, void *at, size_t bytes, int prot, int flags, int64_t offset);

/* Whether this process, or one that it was forked from since its program began, made any. */
bool fan_mmap_was_made(void);

#endif
