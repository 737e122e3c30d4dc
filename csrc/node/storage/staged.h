/*
 * Serves other ranks the bytes of packs on this node's local disk, staged whole or in part. The
 * packs are mapped, and the bytes are sent from the mapping.
 */
#pragma once

#include <stdbool.h>

#include "../machine/transport.h"

struct fan_mounts;
struct fan_node_mount;

/* Opens a pack on the local disk, staged whole or here in part. Returns a descriptor or -errno. Any
 * thread may call it. */
int fan_staged_open(struct fan_node_mount *mount, uint32_t pack, bool to_write);

/* Returns whether the bytes of a request are on the local disk, and were checked. */
bool fan_staged_has(const struct fan_node_mount *mount, const struct fan_fetch_request *request);

/* Checks whether the bytes that another rank requests are here; reads none. Returns 0, -EINVAL (no
 * such bytes), -ENOENT (not here), -EIO (damaged). The functions below are for requests for which
 * this returned 0; any thread may call them. */
int fan_staged_admit(struct fan_mounts *mounts, const struct fan_fetch_request *request);

/* Returns the address at which the bytes are mapped. */
const char *fan_staged_bytes(const struct fan_mounts *mounts,
                             const struct fan_fetch_request *request);

/* Returns whether the bytes can be read without waiting for a disk. */
bool fan_staged_is_in_memory(const struct fan_mounts *mounts,
                             const struct fan_fetch_request *request);

/* Waits until the mapped bytes are in memory. Returns 0 or -EIO. */
int fan_staged_read(const struct fan_mounts *mounts, const struct fan_fetch_request *request);
