/*
 * Reads records ahead: those on this node's disk into the page cache, and those that the disk is to
 * keep from the shared file system. Reader threads do this, a few records at a time, so that the
 * node thread does not wait.
 */
#pragma once

#include <stdbool.h>

#include "../fetch/bring.h"
#include "../machine/transport.h"

/* Returns whether a record belongs on this node's disk. whole: a request for all of the record. */
bool fan_disk_ahead_serves(const struct fan_node *node, const struct fan_fetch_request *whole);

/* Fetches a record that this disk is to keep but lacks, before records that no client waits for.
 * Returns LATER if too many records are on their way. */
enum fan_bring fan_disk_keep(struct fan_node *node, const struct fan_fetch_request *request);

/* Reads a record for which fan_disk_ahead_serves is true ahead. Returns LATER if too many records
 * are being read. */
enum fan_bring fan_disk_ahead(struct fan_node *node, const struct fan_fetch_request *whole);
