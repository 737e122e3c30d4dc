/*
 * Reading records ahead that this node's disk has, or is to keep: the first into the page cache,
 * the second from the shared file system. By threads, so that nobody waits; a few at a time.
 */
#ifndef FAN_NODE_DISK_AHEAD_H
#define FAN_NODE_DISK_AHEAD_H

#include <stdbool.h>

#include "../fetch/bring.h"
#include "../machine/transport.h"

/* Whether the record of a request, which is for all of it, is one for this node's disk. */
bool fan_disk_ahead_serves(const struct fan_node *node, const struct fan_fetch_request *whole);

/* Has the record of a request, which is to be kept here and is not, come to the disk before what is
 * brought for nobody. LATER: as many as may be are on their way. */
enum fan_bring fan_disk_keep(struct fan_node *node, const struct fan_fetch_request *request);

/* Reads it. LATER: as many as may be are being read. */
enum fan_bring fan_disk_ahead(struct fan_node *node, const struct fan_fetch_request *whole);

#endif
