/*
 * Requests to fetch blocks to this node: for clients that wait, for other ranks, and ahead of need.
 * Each begins a flight (flights.h) or joins one that is under way; attempts.h carries it out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bring.h"
#include "../wants/flights.h"
#include "../machine/transport.h"

struct fan_node;
struct fan_want;

/* Answers a want at once, or adds it to a flight. If the client reads the file from front to back,
 * also fetches the next blocks ahead. */
void fan_fetch_want(struct fan_node *node, struct fan_want *want, uint64_t now_ns);

/* Begins a flight that no client wants yet, if fan_bring_check allows it. */
enum fan_bring fan_fetch_ahead(struct fan_node *node, uint64_t file, uint64_t block,
                               struct fan_piece part, enum fan_bring_for whom, uint64_t now_ns);

/* Returns a flight with the part of a block that another rank requested and that is not here;
 * begins one if needed. Returns NULL if it cannot begin one. */
struct fan_flight *fan_fetch_for_rank(struct fan_node *node, uint64_t file, uint64_t block,
                                      struct fan_piece part, enum fan_urgency urgency,
                                      uint64_t now_ns);
