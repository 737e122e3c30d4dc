/* What leaves a cache, under each policy: beside a model that keeps a time for each slot. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../../csrc/policy/victims.h"
#include "check.h"

enum { SLOTS = 50, EVENTS = 20000, DRAWS = 20000 };

/* used: when, 0 where the slot may not go. */
struct model {
    bool follows_opens;
    uint64_t now;
    uint64_t used[SLOTS];
    bool closed[SLOTS];
};

/* The least recently used slot of those that are closed, or open; FAN_NO_SLOT. */
static uint32_t oldest(const struct model *model, bool closed)
{
    uint32_t found = FAN_NO_SLOT;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (model->used[slot] != 0 && model->closed[slot] == closed &&
            (found == FAN_NO_SLOT || model->used[slot] < model->used[found]))
            found = slot;
    }
    return found;
}

static uint32_t next_of(const struct model *model)
{
    uint32_t closed = oldest(model, true);
    return closed != FAN_NO_SLOT ? closed : oldest(model, false);
}

static void set(struct model *model, uint32_t slot, bool closed)
{
    model->used[slot] = ++model->now;
    model->closed[slot] = closed;
}

/* Something happens to a slot, in both. */
static void happen(struct fan_victims *victims, struct model *model, uint32_t slot, unsigned what)
{
    if (model->used[slot] == 0) {
        fan_victims_enter(victims, slot);
        set(model, slot, false);
    } else if (what == 0) {
        fan_victims_leave(victims, slot);
        model->used[slot] = 0;
    } else if (what == 1) {
        fan_victims_close(victims, slot);
        if (model->follows_opens)
            set(model, slot, true);
    } else {
        fan_victims_use(victims, slot);
        set(model, slot, false);
    }
}

static uint32_t count_of(const struct model *model)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        count += model->used[slot] != 0;
    return count;
}

static void test_order(enum fan_policy policy)
{
    struct fan_victims victims;
    struct model model = {.follows_opens = fan_policy_follows_opens(policy)};
    uint32_t seed = 7;
    CHECK(fan_victims_init(&victims, policy, SLOTS) == 0);
    CHECK(fan_victims_next(&victims) == FAN_NO_SLOT);
    for (int i = 0; i < EVENTS; i++) {
        seed = seed * 1664525 + 1013904223;
        happen(&victims, &model, (seed >> 8) % SLOTS, (seed >> 20) % 4);
        CHECK(victims.count == count_of(&model));
        CHECK(fan_victims_next(&victims) == next_of(&model));
        CHECK(fan_victims_unneeded(&victims) == oldest(&model, true));
    }
    fan_victims_fini(&victims);
}

/* Only what may go is drawn, and everything that may go, about equally often. */
static void test_random(void)
{
    struct fan_victims victims;
    struct model model = {0};
    uint32_t drawn[SLOTS] = {0}, seed = 11;
    CHECK(fan_victims_init(&victims, FAN_POLICY_RANDOM, SLOTS) == 0);
    CHECK(fan_victims_next(&victims) == FAN_NO_SLOT);
    for (int i = 0; i < EVENTS; i++) {
        seed = seed * 1664525 + 1013904223;
        happen(&victims, &model, (seed >> 8) % SLOTS, (seed >> 20) % 4);
        uint32_t next = fan_victims_next(&victims);
        CHECK(next == FAN_NO_SLOT ? count_of(&model) == 0 : model.used[next] != 0);
        CHECK(fan_victims_unneeded(&victims) == FAN_NO_SLOT);
    }
    for (int i = 0; i < DRAWS; i++)
        drawn[fan_victims_next(&victims)]++;
    uint32_t each = DRAWS / count_of(&model);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        CHECK(model.used[slot] == 0 ? drawn[slot] == 0
                                    : drawn[slot] > each / 2 && drawn[slot] < 2 * each);
    fan_victims_fini(&victims);
}

/* What the oracle said of each slot; may_go: of which slots it did. */
struct known {
    bool may_go[SLOTS];
    uint32_t foreseen[SLOTS];
};

/* Whether one slot goes before another. */
static bool goes_before(const struct known *known, uint32_t a, uint32_t b)
{
    uint32_t of_a = known->foreseen[a], of_b = known->foreseen[b];
    if (of_a == of_b)
        return a < b;
    return of_a > of_b;
}

static uint32_t first_of(const struct known *known)
{
    uint32_t found = FAN_NO_SLOT;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (known->may_go[slot] && (found == FAN_NO_SLOT || goes_before(known, slot, found)))
            found = slot;
    }
    return found;
}

/* One slot is told of, or leaves. Few values, so that many are equal. */
static void happen_foreseen(struct fan_victims *victims, struct known *known, uint32_t chance)
{
    uint32_t slot = (chance >> 8) % SLOTS;
    if (known->may_go[slot] && (chance >> 20) % 3 == 0) {
        fan_victims_leave(victims, slot);
        known->may_go[slot] = false;
        return;
    }
    known->may_go[slot] = true;
    known->foreseen[slot] = (chance >> 24) % 32 == 0 ? FAN_NEVER : (chance >> 24) % 32;
    fan_victims_foresee(victims, slot, known->foreseen[slot]);
}

static void test_foreseen(enum fan_policy policy)
{
    struct fan_victims victims;
    struct known known = {0};
    uint32_t seed = 13;
    CHECK(fan_victims_init(&victims, policy, SLOTS) == 0);
    CHECK(fan_victims_next(&victims) == FAN_NO_SLOT && !fan_victims_declines(&victims, FAN_NEVER));
    for (int i = 0; i < EVENTS; i++) {
        seed = seed * 1664525 + 1013904223;
        happen_foreseen(&victims, &known, seed);
        uint32_t next = first_of(&known);
        CHECK(fan_victims_next(&victims) == next);
        CHECK(!fan_victims_drops(&victims, FAN_NEVER - 1));
        CHECK(fan_victims_drops(&victims, FAN_NEVER) == (policy == FAN_POLICY_REUSE));
        CHECK(fan_victims_unneeded(&victims) == FAN_NO_SLOT);
        bool declines =
            policy == FAN_POLICY_BELADY && next != FAN_NO_SLOT && known.foreseen[next] <= 25;
        CHECK(fan_victims_declines(&victims, 25) == declines);
    }
    fan_victims_fini(&victims);
}

int main(void)
{
    for (int policy = FAN_POLICY_CLOSE; policy < FAN_POLICY_COUNT; policy++) {
        if (policy != FAN_POLICY_RANDOM)
            test_order((enum fan_policy)policy);
    }
    test_random();
    test_foreseen(FAN_POLICY_REUSE);
    test_foreseen(FAN_POLICY_BELADY);
    printf("test_victims: no fault\n");
    return 0;
}
