/*
 * The requests to fetch blocks to this node: for clients that wait, for other ranks, and ahead of
 * need. Each begins a flight (flights.h) or joins an existing one; attempts.h carries it out.
 */
#ifndef FAN_NODE_FETCH_H
#define FAN_NODE_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bring.h"
#include "../wants/flights.h"
#include "../machine/transport.h"

struct fan_node;
struct fan_want;

/* Answers a want at once, or adds it to a flight. If the want continues a sequential read, also
 * fetches the next blocks ahead. */
void fan_fetch_want(struct fan_node *node, struct fan_want *want, uint64_t now_ns);

/* Begins a flight that no one wants yet, if fan_bring_check allows it. */
enum fan_bring fan_fetch_ahead(struct fan_node *node, uint64_t file, uint64_t block,
                               enum fan_bring_for whom, uint64_t now_ns);

/* Returns the flight of a block that another rank requested and that is not here; begins one if
 * need be. NULL: it cannot be begun. */
struct fan_flight *fan_fetch_for_rank(struct fan_node *node, uint64_t file, uint64_t block,
                                      enum fan_urgency urgency, uint64_t now_ns);

#endif
