/*
 * Reads the originals of a dataset whose packs are planned (common/original.h): files here, and
 * objects of buckets through Python, which has the library for that (fanstore/node/objects.py). Any
 * thread may call these.
 */
#pragma once

#include <stdint.h>

#include "../../common/original.h"
#include "mounts.h"

/* The most of an object that one call asks for. Its ranges come side by side. */
enum { FAN_OBJECT_PART_MAX_BYTES = 4 * FAN_FILL_MAX_BYTES };

/* Reads the bytes of a request from the record's original. Returns 0, -ESTALE (the original is not
 * as it was listed, before or after the reading), -EIO, or -errno if this process lacks something.
 */
int fan_original_read(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to);

/* Notes that all of a record's original was brought as it was listed: clients need not look any
 * more. Does nothing for packs that exist. */
void fan_original_note(struct fan_node_mount *mount, uint64_t id);

/* Has clients compare each original with the listing at its first open. No client is there yet. */
void fan_originals_begin(struct fan_node_mount *mount);
