/*
 * Bringing blocks here. A flight (flights.h) makes attempts: it asks one replica after the other,
 * and then the shared file system, each into a frame of its own, until one answers with the bytes
 * or none is left. Where the cache has no room a flight waits, grounded, for as long as what takes
 * the room may take; one that nobody wants is given up. The thread alone calls these.
 */
#ifndef FAN_NODE_ATTEMPTS_H
#define FAN_NODE_ATTEMPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "../wants/flights.h"
#include "../machine/transport.h"

struct fan_node;

/* Goes on with a flight that has no attempt under way: makes the next one, or has it wait for room
 * behind those that do already. A flight that nobody wants makes one attempt, and does not wait.
 * The flight may have ended, and been freed, by the time this returns. */
void fan_attempt_go_on(struct fan_node *node, struct fan_flight *flight, uint64_t now_ns);

/* The same of one that waited for room. False: there is none yet, and it is to wait on. */
bool fan_attempt_next(struct fan_node *node, struct fan_flight *flight, uint64_t now_ns);

/* Fails all wants of a flight, refuses it to other ranks, and frees it. */
void fan_attempt_fail(struct fan_node *node, struct fan_flight *flight);

/* Gives up the attempt that fills a frame. Its bytes may still come, so the frame is put aside.
 * Its flight, which is to go on or to fail. */
struct fan_flight *fan_attempt_give_up(struct fan_node *node, uint32_t id);

/* A FETCHED or CANCELLED event. */
void fan_attempt_ended(struct fan_node *node, const struct fan_transport_event *event,
                       uint64_t now_ns);

/* The job ends: gives up every attempt, fails every flight, and asks nobody any more. */
void fan_attempt_give_up_all(struct fan_node *node);

#endif
