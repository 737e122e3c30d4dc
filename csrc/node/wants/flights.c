#include "flights.h"

#include <stdlib.h>

#include "../../format/cache_format.h"
#include "sessions.h"

void fan_flights_fini(struct fan_flights *flights)
{
    for (unsigned i = 0; i < FAN_FLIGHT_CHAINS; i++) {
        while (flights->chains[i] != NULL) {
            struct fan_flight *flight = flights->chains[i];
            flights->chains[i] = flight->chained;
            while (flight->asked != NULL) {
                struct fan_asked *asked = flight->asked;
                flight->asked = asked->next;
                free(asked);
            }
            free(flight);
        }
    }
}

static unsigned chain_of(uint64_t file, uint64_t block)
{
    return (unsigned)(fan_cache_hash(file, block) % FAN_FLIGHT_CHAINS);
}

/* Returns `flight` or the first one behind it in its chain that is for this block. */
static struct fan_flight *of_block(struct fan_flight *flight, uint64_t file, uint64_t block)
{
    while (flight != NULL && (flight->file != file || flight->block != block))
        flight = flight->chained;
    return flight;
}

struct fan_flight *fan_flight_find_any(const struct fan_flights *flights, uint64_t file,
                                       uint64_t block)
{
    return of_block(flights->chains[chain_of(file, block)], file, block);
}

struct fan_flight *fan_flight_find(const struct fan_flights *flights, uint64_t file, uint64_t block)
{
    struct fan_flight *flight = fan_flight_find_any(flights, file, block);
    while (flight != NULL && flight->part.count > 0)
        flight = of_block(flight->chained, file, block);
    return flight;
}

struct fan_flight *fan_flight_find_granule(const struct fan_flights *flights, uint64_t file,
                                           uint64_t block, uint32_t granule)
{
    struct fan_flight *flight = fan_flight_find_any(flights, file, block);
    while (flight != NULL && flight->part.count > 0 &&
           granule - flight->part.from >= flight->part.count) /* also if it is below `from` */
        flight = of_block(flight->chained, file, block);
    return flight;
}

struct fan_flight *fan_flight_begin(struct fan_flights *flights, uint64_t file, uint64_t block,
                                    struct fan_piece part, const struct fan_fetch_request *request)
{
    struct fan_flight *flight = calloc(1, sizeof(*flight));
    if (flight == NULL)
        return NULL;
    struct fan_flight **chain = &flights->chains[chain_of(file, block)];
    flight->file = file;
    flight->block = block;
    flight->part = part;
    flight->request = *request;
    flight->frame = FAN_NO_FRAME;
    flight->chained = *chain;
    *chain = flight;
    flights->counts[request->urgency]++;
    return flight;
}

void fan_flight_end(struct fan_flights *flights, struct fan_flight *flight)
{
    struct fan_flight **at = &flights->chains[chain_of(flight->file, flight->block)];
    while (*at != flight)
        at = &(*at)->chained;
    *at = flight->chained;
    flights->counts[flight->request.urgency]--;
    free(flight);
}

void fan_flight_hurry(struct fan_flights *flights, struct fan_flight *flight)
{
    flights->counts[flight->request.urgency]--;
    flight->request.urgency = FAN_DEMAND;
    flights->counts[FAN_DEMAND]++;
}

void fan_flight_join(struct fan_flights *flights, struct fan_flight *flight, struct fan_want *want)
{
    fan_flight_hurry(flights, flight);
    want->flight = flight;
    want->previous = NULL;
    want->next = flight->wants;
    if (want->next != NULL)
        want->next->previous = want;
    flight->wants = want;
}

void fan_flight_leave(struct fan_want *want)
{
    if (want->flight == NULL)
        return;
    if (want->previous != NULL)
        want->previous->next = want->next;
    else
        want->flight->wants = want->next;
    if (want->next != NULL)
        want->next->previous = want->previous;
    want->flight = NULL;
}

void fan_flight_ground(struct fan_flights *flights, struct fan_flight *flight, uint64_t now_ns)
{
    flight->grounded_ns = now_ns;
    fan_queue_put(&flights->grounded, &flight->waiting);
}

void fan_flight_ground_first(struct fan_flights *flights, struct fan_flight *flight)
{
    fan_queue_put_first(&flights->grounded, &flight->waiting);
}

struct fan_flight *fan_flight_unground(struct fan_flights *flights)
{
    struct fan_queued *link = fan_queue_take(&flights->grounded);
    return link != NULL ? FAN_OF_QUEUED(link, struct fan_flight, waiting) : NULL;
}
