#include "orders.h"

#include <stdlib.h>
#include <string.h>

#include "../../format/cache_format.h"

/* NEAR_RECORDS: how far ahead of the fetched records a reader's wants are noted. */
enum { NEAR_RECORDS = 1024, WORD_BITS = 64 };

void fan_order_free(struct fan_order *order)
{
    fan_places_fini(&order->places);
    free(order->wanted);
    free(order->records);
    free(order->brought);
    free(order);
}

void fan_orders_fini(struct fan_orders *orders)
{
    for (struct fan_queued *turn; (turn = fan_queue_take(&orders->turns)) != NULL;)
        fan_order_free((struct fan_order *)turn);
}

static bool copy_records(struct fan_order *order, const uint64_t *records, uint32_t ahead)
{
    order->records = malloc((order->count + 1) * sizeof(*records));
    order->brought = malloc(ahead * sizeof(*order->brought));
    order->wanted = calloc(order->count / WORD_BITS + 1, sizeof(*order->wanted));
    if (order->records == NULL || order->brought == NULL || order->wanted == NULL)
        return false;
    if (order->count > 0)
        memcpy(order->records, records, order->count * sizeof(*records));
    return fan_places_init(&order->places, order->records, order->count) == 0;
}

struct fan_order *fan_order_make(uint32_t mount, const uint64_t *records, uint64_t count,
                                 uint32_t ahead)
{
    struct fan_order *order = calloc(1, sizeof(*order));
    if (order == NULL)
        return NULL;
    order->count = count;
    order->mount = mount;
    if (copy_records(order, records, ahead))
        return order;
    fan_order_free(order);
    return NULL;
}

struct fan_order *fan_orders_find(const struct fan_orders *orders, uint64_t id)
{
    struct fan_order *order = fan_orders_first(orders);
    while (order != NULL && order->id != id)
        order = fan_orders_after(order);
    return order;
}

struct fan_order *fan_orders_reader(const struct fan_orders *orders, uint64_t file, uint32_t *place)
{
    struct fan_order *reader = NULL;
    for (struct fan_order *order = fan_orders_first(orders); order != NULL;
         order = fan_orders_after(order)) {
        if (order->mount != fan_cache_mount(file))
            continue;
        uint32_t found =
            fan_places_find(&order->places, fan_cache_record(file), order->passed, order->passed);
        if (found == FAN_NO_PLACE ||
            (reader != NULL && order->begins + found >= reader->begins + *place))
            continue;
        reader = order;
        *place = found;
    }
    return reader;
}

void fan_orders_note_want(const struct fan_orders *orders, uint64_t file)
{
    uint32_t place;
    struct fan_order *order = fan_orders_reader(orders, file, &place);
    if (order != NULL && place >= order->next && place < order->next + NEAR_RECORDS)
        order->wanted[place / WORD_BITS] |= UINT64_C(1) << place % WORD_BITS;
}

bool fan_order_is_wanted(const struct fan_order *order, uint64_t place)
{
    return (order->wanted[place / WORD_BITS] >> place % WORD_BITS & 1) != 0;
}
