#include "victims.h"

#include <errno.h>
#include <stdlib.h>

#define RANDOM_SEED UINT64_C(0x9e3779b97f4a7c15) /* any value will do */

static const struct fan_victim_list EMPTY = {FAN_NO_SLOT, FAN_NO_SLOT};

int fan_victims_init(struct fan_victims *victims, enum fan_policy policy, uint32_t slot_count)
{
    *victims = (struct fan_victims){
        .policy = policy, .open = EMPTY, .closed = EMPTY, .random = RANDOM_SEED};
    if (fan_policy_has_oracle(policy))
        return fan_key_heap_init(&victims->foreseen, slot_count);
    victims->slots = calloc(slot_count, sizeof(*victims->slots));
    if (policy == FAN_POLICY_RANDOM)
        victims->drawn = calloc(slot_count, sizeof(*victims->drawn));
    if (victims->slots != NULL && (victims->drawn != NULL || policy != FAN_POLICY_RANDOM))
        return 0;
    fan_victims_fini(victims);
    return -ENOMEM;
}

void fan_victims_fini(struct fan_victims *victims)
{
    free(victims->slots);
    free(victims->drawn);
    fan_key_heap_fini(&victims->foreseen);
    *victims = (struct fan_victims){0};
}

static struct fan_victim_list *list_of(struct fan_victims *victims, uint32_t slot)
{
    return victims->slots[slot].closed ? &victims->closed : &victims->open;
}

static void append(struct fan_victims *victims, uint32_t slot, bool closed)
{
    struct fan_victim *victim = &victims->slots[slot];
    victim->closed = closed;
    struct fan_victim_list *list = list_of(victims, slot);
    victim->previous = list->tail;
    victim->next = FAN_NO_SLOT;
    if (list->tail == FAN_NO_SLOT)
        list->head = slot;
    else
        victims->slots[list->tail].next = slot;
    list->tail = slot;
}

static void detach(struct fan_victims *victims, uint32_t slot)
{
    const struct fan_victim *victim = &victims->slots[slot];
    struct fan_victim_list *list = list_of(victims, slot);
    if (victim->previous == FAN_NO_SLOT)
        list->head = victim->next;
    else
        victims->slots[victim->previous].next = victim->next;
    if (victim->next == FAN_NO_SLOT)
        list->tail = victim->previous;
    else
        victims->slots[victim->next].previous = victim->previous;
}

/* Removes a slot from `drawn`: the last slot takes its place. */
static void undraw(struct fan_victims *victims, uint32_t slot)
{
    uint32_t place = victims->slots[slot].previous;
    uint32_t last = victims->drawn[victims->count - 1];
    victims->drawn[place] = last;
    victims->slots[last].previous = place;
}

void fan_victims_enter(struct fan_victims *victims, uint32_t slot)
{
    if (victims->policy == FAN_POLICY_RANDOM) {
        victims->slots[slot].previous = victims->count;
        victims->drawn[victims->count] = slot;
    } else {
        append(victims, slot, false);
    }
    victims->count++;
}

/* Returns the heap key of a block: the later its next use, the lower the key. */
static uint32_t key_of(uint32_t foreseen)
{
    return FAN_NEVER - foreseen;
}

void fan_victims_foresee(struct fan_victims *victims, uint32_t slot, uint32_t foreseen)
{
    fan_key_heap_put(&victims->foreseen, slot, key_of(foreseen));
    victims->count = victims->foreseen.count;
}

bool fan_victims_declines(const struct fan_victims *victims, uint32_t foreseen)
{
    return victims->policy == FAN_POLICY_BELADY && victims->count > 0 &&
           key_of(foreseen) <= fan_key_heap_first_key(&victims->foreseen);
}

void fan_victims_leave(struct fan_victims *victims, uint32_t slot)
{
    if (victims->policy == FAN_POLICY_RANDOM)
        undraw(victims, slot);
    else if (fan_policy_has_oracle(victims->policy))
        fan_key_heap_remove(&victims->foreseen, slot);
    else
        detach(victims, slot);
    victims->count--;
}

static void move_to_end(struct fan_victims *victims, uint32_t slot, bool closed)
{
    if (victims->policy == FAN_POLICY_RANDOM)
        return;
    detach(victims, slot);
    append(victims, slot, closed);
}

void fan_victims_use(struct fan_victims *victims, uint32_t slot)
{
    move_to_end(victims, slot, false);
}

void fan_victims_close(struct fan_victims *victims, uint32_t slot)
{
    if (fan_policy_follows_opens(victims->policy))
        move_to_end(victims, slot, true);
}

/* Returns a random number below `limit`, by splitmix64. */
static uint32_t draw(struct fan_victims *victims, uint32_t limit)
{
    uint64_t x = victims->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((uint64_t)(uint32_t)(x >> 32) * limit >> 32);
}

uint32_t fan_victims_next(struct fan_victims *victims)
{
    if (victims->count == 0)
        return FAN_NO_SLOT;
    if (victims->policy == FAN_POLICY_RANDOM)
        return victims->drawn[draw(victims, victims->count)];
    if (fan_policy_has_oracle(victims->policy))
        return fan_key_heap_first(&victims->foreseen);
    return victims->closed.head != FAN_NO_SLOT ? victims->closed.head : victims->open.head;
}

bool fan_victims_drops(const struct fan_victims *victims, uint32_t foreseen)
{
    return victims->policy == FAN_POLICY_REUSE && foreseen == FAN_NEVER;
}

uint32_t fan_victims_unneeded(const struct fan_victims *victims)
{
    return victims->closed.head;
}
