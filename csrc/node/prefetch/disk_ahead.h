/*
 * Reads records ahead: those on this node's disk into the page cache, and those that the disk will
 * keep from the shared file system. Threads do it, a few records at a time, so that the node thread
 * does not wait.
 */
#ifndef FAN_NODE_DISK_AHEAD_H
#define FAN_NODE_DISK_AHEAD_H

#include <stdbool.h>

#include "../fetch/bring.h"
#include "../machine/transport.h"

/* Whether the record of `whole`, a request for all of the record, belongs on this node's disk. */
bool fan_disk_ahead_serves(const struct fan_node *node, const struct fan_fetch_request *whole);

/* Fetches the record of a request to this disk, which should keep it but lacks it, before records
 * that no one waits for. LATER: the limit of records on their way is reached. */
enum fan_bring fan_disk_keep(struct fan_node *node, const struct fan_fetch_request *request);

/* Reads such a record ahead. LATER: the limit of records being read is reached. */
enum fan_bring fan_disk_ahead(struct fan_node *node, const struct fan_fetch_request *whole);

#endif
