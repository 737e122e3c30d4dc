/*
 * Fetches other ranks' records that this rank has room for (../fetch/copies.h), one at a time,
 * while the node has nothing else to do. Once all have come, it reads nothing from others any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fan_node;

/* Fetches the next record that this rank may copy. Returns whether more records are left to look
 * at. */
bool fan_copy_ahead_advance(struct fan_node *node, uint64_t now_ns);
