/*
 * Keeps copies of other ranks' records where this rank's disk has room beyond its share, so that
 * they need not come again. ../prefetch/copy_ahead.h fetches those that nobody has read here.
 */
#pragma once

#include <stdint.h>

struct fan_node;

/* Writes the record of a frame that another rank has just filled to this rank's disk, if there is
 * room. Copies its bytes first, so the frame may go. */
void fan_copies_take(struct fan_node *node, uint32_t id);
