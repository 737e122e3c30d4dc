/*
 * Blocks on their way here. A flight is one block that pins want: it asks one replica after the
 * other, and then the shared file system, each into a frame of its own, until one answers with the
 * bytes or none is left. Where the cache has no room the flight waits, grounded, for as long as what
 * takes the room may take.
 */
#ifndef FAN_NODE_FETCH_H
#define FAN_NODE_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "blockcache.h"
#include "ranks.h"
#include "transport.h"

struct fan_node;
struct fan_want;

/* unreadable: a replica said that the bytes are damaged, or the shared file system could not give
 * them. read_shared: it was asked. grounded_ns: since when the flight waits for room. */
struct fan_flight {
    uint64_t file;
    uint64_t block;
    struct fan_fetch_request request;
    struct fan_tried tried;
    struct fan_want *wants;
    uint64_t grounded_ns;
    bool unreadable;
    bool read_shared;
    struct fan_flight *chained; /* the next in its chain of the table */
    struct fan_flight *waiting; /* the next that is grounded */
};

enum { FAN_FLIGHT_CHAINS = 1024 };

struct fan_flights {
    struct fan_flight *chains[FAN_FLIGHT_CHAINS];
    struct fan_flight *grounded; /* oldest first */
    struct fan_flight **grounded_end;
    uint64_t retry_ns;
};

void fan_flights_init(struct fan_flights *flights);
void fan_flights_fini(struct fan_flights *flights);

/* Answers a want at once, or puts it into a flight. */
void fan_fetch_want(struct fan_node *node, struct fan_want *want, uint64_t now_ns);

/* Takes a want out of its flight, which goes on without it. */
void fan_flight_leave(struct fan_want *want);

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
