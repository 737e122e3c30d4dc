/*
 * Reads the originals of a dataset whose packs are planned (common/original.h). Any thread may call
 * these.
 */
#pragma once

#include <stdint.h>

#include "mounts.h"

/* Reads the bytes of a request from the record's original. Returns 0, -ESTALE (the original is not
 * as it was listed, before or after the reading), -EIO, or -errno if this process lacks something.
 */
int fan_original_read(struct fan_node_mount *mount, const struct fan_fetch_request *request,
                      void *to);

/* Notes that all of a record's original was brought as it was listed: clients need not look any
 * more. Does nothing for packs that exist. */
void fan_original_note(struct fan_node_mount *mount, uint64_t id);

/* Has clients compare each original with the listing at its first open. No client is there yet. */
void fan_originals_begin(struct fan_node_mount *mount);
