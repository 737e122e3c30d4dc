/*
 * How blocks come here. A flight (flights.h) makes attempts: it asks one replica after the other,
 * and then the shared file system, each into a frame of its own, until one answers with the bytes
 * or none is left. Where the cache has no room a flight waits, grounded, for as long as what takes
 * the room may take; one that nobody wants is given up.
 */
#ifndef FAN_NODE_FETCH_H
#define FAN_NODE_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bring.h"
#include "cache/blockcache.h"
#include "flights.h"
#include "machine/transport.h"

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

/* A FETCHED or CANCELLED event. */
void fan_fetch_ended(struct fan_node *node, const struct fan_transport_event *event,
                     uint64_t now_ns);

/* Gives up attempts that are late or at a lost rank, and starts what was grounded. */
void fan_fetch_advance(struct fan_node *node, uint64_t now_ns);

/* How long the oldest attempt under way at a source has waited, and for which rank; 0: there is
 * none. */
uint64_t fan_fetch_waited_ns(const struct fan_node *node, enum fan_source source, uint32_t *rank);

/* When that is to be called again at the latest. */
uint64_t fan_fetch_next_ns(const struct fan_node *node);

/* The job ends: gives up every attempt and asks nobody any more. */
void fan_fetch_give_up(struct fan_node *node);

#endif
