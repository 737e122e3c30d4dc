/*
 * Packs on the shared file system, which every rank may read.
 */
#ifndef FAN_NODE_SHARED_PACKS_H
#define FAN_NODE_SHARED_PACKS_H

#include "../machine/transport.h"

struct fan_mounts;

/* Reads the bytes of a request of this node's own from the shared file system. By any thread. 0,
 * -EIO, or -errno where this process lacks something. */
int fan_shared_read(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to);

#endif
