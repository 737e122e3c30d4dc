/*
 * The bytes of packs on this node's local disk, staged whole or in part, as other ranks ask for
 * them: mapped, for they are sent from there.
 */
#ifndef FAN_NODE_STAGED_H
#define FAN_NODE_STAGED_H

#include <stdbool.h>

#include "../machine/transport.h"

struct fan_mounts;
struct fan_node_mount;

/* Opens a pack on the local disk: the staged one, or the one that is here in part. A descriptor or
 * -errno. By any thread. */
int fan_staged_open(struct fan_node_mount *mount, uint32_t pack, bool to_write);

/* Whether the bytes of a request are on the local disk, and were checked. */
bool fan_staged_has(const struct fan_node_mount *mount, const struct fan_fetch_request *request);

/* Whether the bytes that another rank asks for are here; reads none. 0, -EINVAL (no such bytes),
 * -ENOENT (they are not here), -EIO (damaged). The functions below are for requests that this let
 * pass, and may be called by any thread. */
int fan_staged_admit(struct fan_mounts *mounts, const struct fan_fetch_request *request);

/* The address at which the bytes are mapped. */
const char *fan_staged_bytes(const struct fan_mounts *mounts,
                             const struct fan_fetch_request *request);

/* Whether reading them waits for no disk. */
bool fan_staged_is_in_memory(const struct fan_mounts *mounts,
                             const struct fan_fetch_request *request);

/* Waits until the bytes can be read where they are mapped. 0 or -EIO. */
int fan_staged_read(const struct fan_mounts *mounts, const struct fan_fetch_request *request);

#endif
