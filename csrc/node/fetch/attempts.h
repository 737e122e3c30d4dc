/*
 * Fetches blocks to this node. A flight (flights.h) makes attempts: it asks one replica after the
 * other, and then the shared file system, each time into a new frame, until the bytes arrive or no
 * source is left. If the cache has no room, a wanted flight is grounded: it waits for room, with a
 * time limit. A flight that no client wants is given up. Only the node thread calls these
 * functions.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../wants/flights.h"
#include "../machine/transport.h"

struct fan_node;

/* Continues a flight that has no attempt in progress: makes the next attempt, or lets the flight
 * wait for room behind those that wait already. A flight that no client wants makes one attempt and
 * does not wait. The flight may have ended and been freed when this returns. */
void fan_attempt_go_on(struct fan_node *node, struct fan_flight *flight, uint64_t now_ns);

/* Makes the next attempt of a flight that waited for room. Returns false if there is still no room;
 * the flight must go on waiting. */
bool fan_attempt_next(struct fan_node *node, struct fan_flight *flight, uint64_t now_ns);

/* Ends a flight without the block: fails its wants, refuses the other ranks' requests, and frees
 * it. */
void fan_attempt_fail(struct fan_node *node, struct fan_flight *flight);

/* Gives up the attempt that fills a frame. The bytes may still arrive, so the frame goes to
 * quarantine. Returns the flight; the caller continues or fails it. */
struct fan_flight *fan_attempt_give_up(struct fan_node *node, uint32_t id);

/* Handles a FETCHED or CANCELLED event. */
void fan_attempt_ended(struct fan_node *node, const struct fan_transport_event *event,
                       uint64_t now_ns);

/* At the end of the job: gives up every attempt, fails every flight, and asks no rank from then
 * on. */
void fan_attempt_give_up_all(struct fan_node *node);
