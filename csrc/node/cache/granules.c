#include "granules.h"

#include <errno.h>
#include <stdlib.h>

enum { NONE = UINT32_MAX, WORD_BITS = 64 };

static uint32_t bin_of(uint32_t length)
{
    return length < FAN_GRANULES_RUN_MAX ? length : FAN_GRANULES_RUN_MAX;
}

static void link_free(struct fan_granules *granules, uint32_t start, uint32_t length)
{
    uint32_t bin = bin_of(length), next = granules->heads[bin];
    granules->links[start] = (struct fan_granule_link){NONE, next};
    if (next != NONE)
        granules->links[next].previous = start;
    granules->heads[bin] = start;
    granules->there[bin / WORD_BITS] |= UINT64_C(1) << bin % WORD_BITS;
    granules->lengths[start] = granules->lengths[start + length - 1] = length;
    granules->free_count += length;
}

/* Removes a free run from its list. Returns its length. */
static uint32_t unlink_free(struct fan_granules *granules, uint32_t start)
{
    struct fan_granule_link link = granules->links[start];
    uint32_t length = granules->lengths[start], bin = bin_of(length);
    if (link.previous == NONE)
        granules->heads[bin] = link.next;
    else
        granules->links[link.previous].next = link.next;
    if (link.next != NONE)
        granules->links[link.next].previous = link.previous;
    if (granules->heads[bin] == NONE)
        granules->there[bin / WORD_BITS] &= ~(UINT64_C(1) << bin % WORD_BITS);
    granules->lengths[start] = granules->lengths[start + length - 1] = 0;
    granules->free_count -= length;
    return length;
}

/* Gives a run back, and joins it with the free runs on both sides. */
void fan_granules_give(struct fan_granules *granules, uint32_t start, uint32_t count)
{
    uint32_t end = start + count;
    if (count == 0)
        return;
    if (start > 0 && granules->lengths[start - 1] > 0)
        start -= unlink_free(granules, start - granules->lengths[start - 1]);
    if (end < granules->count && granules->lengths[end] > 0)
        end += unlink_free(granules, end);
    link_free(granules, start, end - start);
}

/* Returns the first bin with runs of at least this many granules; a number beyond the last bin if
 * there is none. */
static uint32_t first_bin(const struct fan_granules *granules, uint32_t count)
{
    uint64_t mask = ~UINT64_C(0) << count % WORD_BITS;
    for (uint32_t word = count / WORD_BITS; word <= FAN_GRANULES_RUN_MAX / WORD_BITS; word++) {
        uint64_t there = granules->there[word] & mask;
        if (there != 0)
            return word * WORD_BITS + (uint32_t)__builtin_ctzll(there);
        mask = ~UINT64_C(0);
    }
    return FAN_GRANULES_RUN_MAX + 1;
}

int64_t fan_granules_take(struct fan_granules *granules, uint32_t count)
{
    uint32_t bin = first_bin(granules, count);
    if (bin > FAN_GRANULES_RUN_MAX)
        return -ENOSPC;
    uint32_t start = granules->heads[bin];
    uint32_t length = unlink_free(granules, start);
    if (length > count)
        link_free(granules, start + count, length - count);
    return start;
}

int fan_granules_init(struct fan_granules *granules, uint32_t count, uint32_t most)
{
    *granules = (struct fan_granules){0};
    for (unsigned bin = 0; bin <= FAN_GRANULES_RUN_MAX; bin++)
        granules->heads[bin] = NONE;
    granules->links = calloc((size_t)most + 1, sizeof(*granules->links));
    granules->lengths = calloc((size_t)most + 1, sizeof(*granules->lengths));
    if (granules->links == NULL || granules->lengths == NULL) {
        fan_granules_fini(granules);
        return -ENOMEM;
    }
    fan_granules_add(granules, count);
    return 0;
}

void fan_granules_add(struct fan_granules *granules, uint32_t more)
{
    granules->count += more;
    fan_granules_give(granules, granules->count - more, more);
}

void fan_granules_fini(struct fan_granules *granules)
{
    free(granules->links);
    free(granules->lengths);
    *granules = (struct fan_granules){0};
}
