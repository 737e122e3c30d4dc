/*
 * Who would have blocks brought here: clients that wait, other ranks, and those that bring blocks
 * ahead. Each begins a flight (flights.h) or joins the one that is there; attempts.h carries it
 * out.
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

/* Answers a want at once, or puts it into a flight. Where it goes on with a run, blocks behind it
 * are brought ahead. */
void fan_fetch_want(struct fan_node *node, struct fan_want *want, uint64_t now_ns);

/* Begins a flight that nobody wants yet, where that may be. */
enum fan_bring fan_fetch_ahead(struct fan_node *node, uint64_t file, uint64_t block,
                               enum fan_bring_for whom, uint64_t now_ns);

/* The flight of a block that is not here and that another rank asks this one for, which is begun if
 * need be. NULL: it cannot be. */
struct fan_flight *fan_fetch_for_rank(struct fan_node *node, uint64_t file, uint64_t block,
                                      enum fan_urgency urgency, uint64_t now_ns);

#endif
