/* Pilots: hashes of every number get places of their own, and equal ones are refused. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../csrc/common/dentry.h"
#include "../../csrc/prepare/index/pilots.h"
#include "check.h"

static uint64_t chance = 88172645463325252u;

static uint64_t next(void)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance * UINT64_C(0x2545f4914f6cdd1d);
}

/* Part number 0 of an index of `count` dentries has this many buckets. */
static uint32_t buckets_of(uint32_t count)
{
    return (uint32_t)fan_first_pilot(count, 1);
}

static void check_places(const uint64_t *hashes, uint32_t count, const uint16_t *pilots,
                         uint32_t seed)
{
    uint8_t taken[FAN_PART_MOST] = {0};
    for (uint32_t i = 0; i < count; i++) {
        uint16_t pilot = pilots[fan_bucket_of(hashes[i], buckets_of(count))];
        uint64_t place = fan_place_of(hashes[i], seed, pilot, count);
        CHECK(place < count);
        CHECK(!taken[place]);
        taken[place] = 1;
    }
}

static void check_count(uint32_t count)
{
    uint64_t hashes[FAN_PART_MOST] = {0};
    uint16_t pilots[FAN_PART_MOST];
    uint32_t seed;
    for (uint32_t i = 0; i < count; i++)
        hashes[i] = next();
    CHECK(fan_seek_pilots(hashes, count, pilots, buckets_of(count), &seed) == 0);
    check_places(hashes, count, pilots, seed);
    if (count < 2)
        return;
    hashes[count - 1] = hashes[next() % (count - 1)];
    CHECK(fan_seek_pilots(hashes, count, pilots, buckets_of(count), &seed) == -EOVERFLOW);
}

int main(void)
{
    for (uint32_t count = 0; count < 200; count++)
        check_count(count);
    for (uint32_t count = 900; count <= FAN_PART_MOST; count += 41)
        check_count(count);
    check_count(FAN_PART_MOST);
    printf("test_pilots: no fault\n");
    return 0;
}
