/*
 * Packs on the shared file system, which every rank may read.
 */
#pragma once

#include "../machine/transport.h"

struct fan_mounts;

/* Reads the bytes of one of this node's own requests from the shared file system. Any thread may
 * call it. Returns 0, -EIO, or -errno if this process lacks something. */
int fan_shared_read(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to);
