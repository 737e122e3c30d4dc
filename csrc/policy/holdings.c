#include "holdings.h"

#include <errno.h>
#include <stdlib.h>

int fan_holdings_init(struct fan_holdings *holdings, enum fan_policy policy,
                      const struct fan_items *items, uint32_t slot_count, uint64_t capacity_bytes)
{
    *holdings = (struct fan_holdings){
        .items = *items, .first_free = FAN_NO_SLOT, .capacity_bytes = capacity_bytes};
    holdings->slots = calloc(items->count, sizeof(*holdings->slots));
    holdings->items_at = calloc(slot_count, sizeof(*holdings->items_at));
    int rc = fan_victims_init(&holdings->victims, policy, slot_count);
    if (rc == 0 && (holdings->slots == NULL || (holdings->items_at == NULL && slot_count > 0)))
        rc = -ENOMEM;
    if (rc != 0)
        fan_holdings_fini(holdings);
    return rc;
}

void fan_holdings_fini(struct fan_holdings *holdings)
{
    free(holdings->slots);
    free(holdings->items_at);
    fan_victims_fini(&holdings->victims);
    *holdings = (struct fan_holdings){0};
}

static uint32_t take_slot(struct fan_holdings *holdings)
{
    uint32_t slot = holdings->first_free;
    if (slot == FAN_NO_SLOT)
        return holdings->fresh++;
    holdings->first_free = holdings->items_at[slot];
    return slot;
}

static void note(struct fan_holdings *holdings, uint32_t item, bool came)
{
    if (holdings->copies != NULL)
        holdings->copies[item] = (uint16_t)(holdings->copies[item] + (came ? 1 : -1));
    if (holdings->log != NULL)
        holdings->log(holdings->log_context, item, came);
}

static void evict(struct fan_holdings *holdings, uint32_t slot)
{
    uint32_t item = holdings->items_at[slot];
    fan_victims_leave(&holdings->victims, slot);
    holdings->slots[item] = 0;
    holdings->items_at[slot] = holdings->first_free;
    holdings->first_free = slot;
    holdings->used_bytes -= fan_item_bytes(&holdings->items, item);
    note(holdings, item, false);
}

static bool make_room(struct fan_holdings *holdings, uint64_t bytes, uint32_t foreseen)
{
    if (bytes > holdings->capacity_bytes)
        return false;
    while (holdings->used_bytes + bytes > holdings->capacity_bytes) {
        if (fan_victims_declines(&holdings->victims, foreseen))
            return false;
        uint32_t slot = fan_victims_next(&holdings->victims);
        if (slot == FAN_NO_SLOT)
            return false;
        evict(holdings, slot);
    }
    return true;
}

static void admit(struct fan_holdings *holdings, uint32_t item, uint64_t bytes)
{
    uint32_t slot = take_slot(holdings);
    holdings->slots[item] = slot + 1;
    holdings->items_at[slot] = item;
    holdings->used_bytes += bytes;
    if (holdings->used_bytes > holdings->peak_bytes)
        holdings->peak_bytes = holdings->used_bytes;
    note(holdings, item, true);
}

/* Reports to the policy that the item in a slot was read, and closed again. Under minio an item
 * that entered while there was room is not reported as closed, so it stays for good. */
static void tell(struct fan_holdings *holdings, uint32_t slot, bool came, uint32_t foreseen)
{
    struct fan_victims *victims = &holdings->victims;
    if (victims->policy == FAN_POLICY_MINIO)
        return;
    if (fan_policy_has_oracle(victims->policy))
        fan_victims_foresee(victims, slot, foreseen);
    else if (came)
        fan_victims_enter(victims, slot);
    else
        fan_victims_use(victims, slot);
    fan_victims_close(victims, slot);
}

static void drop_unneeded(struct fan_holdings *holdings, uint32_t slot, uint32_t foreseen,
                          bool lone)
{
    uint32_t unneeded;
    if (!lone && fan_victims_drops(&holdings->victims, foreseen))
        evict(holdings, slot);
    while ((unneeded = fan_victims_unneeded(&holdings->victims)) != FAN_NO_SLOT)
        evict(holdings, unneeded);
}

bool fan_holdings_read(struct fan_holdings *holdings, uint32_t item, uint32_t foreseen, bool lone)
{
    uint64_t bytes = fan_item_bytes(&holdings->items, item);
    bool hit = fan_holdings_has(holdings, item);
    if (!hit && !make_room(holdings, bytes, foreseen))
        return false;
    if (!hit)
        admit(holdings, item, bytes);
    uint32_t slot = holdings->slots[item] - 1;
    tell(holdings, slot, !hit, foreseen);
    drop_unneeded(holdings, slot, foreseen, lone);
    return hit;
}
