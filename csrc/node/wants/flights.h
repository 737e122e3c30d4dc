/*
 * Flights: blocks on their way to this node, each with the wants for it. A flight of urgency
 * FAN_AHEAD has no wants yet; the first want that joins it makes it a demand. A flight for which
 * the cache has no room is grounded: it waits for room.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../ranks/ranks.h"
#include "../machine/piece.h"
#include "../machine/queue.h"
#include "../machine/transport.h"

struct fan_want;

/* Another rank's request for a block that is on its way to this node. */
struct fan_asked {
    struct fan_asked *next;
    struct fan_fetch_request request;
    uint32_t rank;
};

/* part: of the block that is on its way. frame: of the attempt in progress, or FAN_NO_FRAME.
 * unreadable: a replica answered that the bytes are damaged, or the shared file system could not
 * deliver them. read_shared: the shared file system was tried. asked_ahead: a rank was asked before
 * any client wanted the block, so it is not late for that alone. hinted: the block is kept until it
 * is read. awaited: as in a frame. grounded_ns: when the flight began to wait for room. */
struct fan_flight {
    uint64_t file;
    uint64_t block;
    struct fan_piece part;
    struct fan_fetch_request request;
    struct fan_tried tried;
    struct fan_want *wants;
    struct fan_asked *asked; /* answered by replies.h */
    uint64_t grounded_ns;
    uint32_t frame;
    uint32_t awaited;
    bool unreadable;
    bool read_shared;
    bool asked_ahead;
    bool hinted;
    bool replaces; /* while no client wants it, it may only come in place of other blocks */
    struct fan_flight *chained; /* the next flight in this chain of the table */
    struct fan_queued waiting;  /* its link in the queue of grounded flights */
};

enum { FAN_FLIGHT_CHAINS = 1024 };

/* counts: the number of flights by urgency. */
struct fan_flights {
    struct fan_flight *chains[FAN_FLIGHT_CHAINS];
    struct fan_queue grounded;
    uint32_t counts[FAN_URGENCIES];
    uint64_t retry_ns;
};

/* Frees all flights. A zeroed struct has none. */
void fan_flights_fini(struct fan_flights *flights);

/* Return the flight of a whole block; a flight that brings a granule of the block; any flight of
 * the block. NULL if there is none. */
struct fan_flight *fan_flight_find(const struct fan_flights *flights, uint64_t file,
                                   uint64_t block);
struct fan_flight *fan_flight_find_granule(const struct fan_flights *flights, uint64_t file,
                                           uint64_t block, uint32_t granule);
struct fan_flight *fan_flight_find_any(const struct fan_flights *flights, uint64_t file,
                                       uint64_t block);

/* Makes a flight without wants, with the urgency of `request`, which is for this part of the block.
 * Returns NULL if there is no memory. */
struct fan_flight *fan_flight_begin(struct fan_flights *flights, uint64_t file, uint64_t block,
                                    struct fan_piece part, const struct fan_fetch_request *request);

/* Ends a flight that has no wants and is not grounded. */
void fan_flight_end(struct fan_flights *flights, struct fan_flight *flight);

/* Makes a flight a demand. */
void fan_flight_hurry(struct fan_flights *flights, struct fan_flight *flight);

/* join adds a want to a flight, which becomes a demand; leave removes a want from its flight, which
 * continues without it. */
void fan_flight_join(struct fan_flights *flights, struct fan_flight *flight, struct fan_want *want);
void fan_flight_leave(struct fan_want *want);

/* Adds a flight to the grounded ones, at the end or at the front; unground takes the first of them,
 * or returns NULL. */
void fan_flight_ground(struct fan_flights *flights, struct fan_flight *flight, uint64_t now_ns);
void fan_flight_ground_first(struct fan_flights *flights, struct fan_flight *flight);
struct fan_flight *fan_flight_unground(struct fan_flights *flights);
