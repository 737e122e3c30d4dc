/*
 * The blocks on their way here, and who wants each. A flight whose urgency is FAN_AHEAD is one that
 * nobody wants yet; it becomes a demand with the first want that joins it. One that finds no room
 * in the cache is grounded until there is some.
 */
#ifndef FAN_NODE_FLIGHTS_H
#define FAN_NODE_FLIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "../ranks/ranks.h"
#include "../machine/queue.h"
#include "../machine/transport.h"

struct fan_want;

/* Another rank's request for a block that is on its way here. */
struct fan_asked {
    struct fan_asked *next;
    struct fan_fetch_request request;
    uint32_t rank;
};

/* frame: of the attempt that is under way, FAN_NO_FRAME. unreadable: a replica said that the bytes
 * are damaged, or the shared file system could not give them. read_shared: it was asked.
 * asked_ahead: a rank was, when nobody wanted the block yet, and is no late one for that alone.
 * hinted: what it brings is kept until it is read. awaited: as of a frame. grounded_ns: since when
 * the flight waits for room. */
struct fan_flight {
    uint64_t file;
    uint64_t block;
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
    struct fan_flight *chained; /* the next in its chain of the table */
    struct fan_queued waiting;  /* among those that are grounded */
};

enum { FAN_FLIGHT_CHAINS = 1024 };

/* counts: of flights by their urgency. */
struct fan_flights {
    struct fan_flight *chains[FAN_FLIGHT_CHAINS];
    struct fan_queue grounded;
    uint32_t counts[FAN_URGENCIES];
    uint64_t retry_ns;
};

/* A zeroed one has no flights. Frees all. */
void fan_flights_fini(struct fan_flights *flights);

struct fan_flight *fan_flight_find(const struct fan_flights *flights, uint64_t file,
                                   uint64_t block);

/* A new flight that nobody wants yet, with the urgency of its request. NULL: there is no memory. */
struct fan_flight *fan_flight_begin(struct fan_flights *flights, uint64_t file, uint64_t block,
                                    const struct fan_fetch_request *request);

/* Ends a flight that has no wants and is not grounded. */
void fan_flight_end(struct fan_flights *flights, struct fan_flight *flight);

/* A flight is a demand from now on. */
void fan_flight_hurry(struct fan_flights *flights, struct fan_flight *flight);

/* Adds a want to a flight, which hurries; takes a want out of its flight, which
 * goes on without it. */
void fan_flight_join(struct fan_flights *flights, struct fan_flight *flight, struct fan_want *want);
void fan_flight_leave(struct fan_want *want);

/* Has a flight wait behind, or before, all that do; takes the first of them, or NULL. */
void fan_flight_ground(struct fan_flights *flights, struct fan_flight *flight, uint64_t now_ns);
void fan_flight_ground_first(struct fan_flights *flights, struct fan_flight *flight);
struct fan_flight *fan_flight_unground(struct fan_flights *flights);

#endif
