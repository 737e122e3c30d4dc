#include "shuffle.h"

/* This many places are computed and prefetched into the CPU's cache before the first of them is
 * used. */
#define AHEAD 64

static void swap(uint32_t *items, uint64_t a, uint64_t b)
{
    uint32_t kept = items[a];
    items[a] = items[b];
    items[b] = kept;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void fan_shuffle_front(uint32_t *items, uint64_t count, uint64_t done, const uint64_t *words,
                       uint64_t word_count)
{
    uint64_t places[AHEAD];
    uint64_t end = count ? least(count - 1, done + word_count) : 0;

    for (uint64_t first = done; first < end; first += AHEAD) {
        uint64_t steps = least(AHEAD, end - first);
        for (uint64_t i = 0; i < steps; i++) {
            uint32_t word = (uint32_t)words[first - done + i];
            places[i] = first + i + word % (uint32_t)(count - first - i);
            __builtin_prefetch(&items[places[i]], 1);
        }
        for (uint64_t i = 0; i < steps; i++)
            swap(items, first + i, places[i]);
    }
}

void fan_shuffle_inside_out(uint32_t *items, uint64_t count, uint64_t done, const uint64_t *words,
                            uint64_t word_count)
{
    uint64_t end = least(count, done + word_count / 2);

    for (uint64_t i = done; i < end; i++, words += 2) {
        uint64_t place = (words[0] << 32 | (uint32_t)words[1]) % (i + 1);
        items[i] = items[place];
        items[place] = (uint32_t)i;
    }
}

/* Returns a number below `range` by multiplication (Lemire); -1 if the word must be rejected. */
static int64_t below(uint64_t word, uint32_t range)
{
    uint64_t product = (uint64_t)(uint32_t)word * range;

    if ((uint32_t)product < range && (uint32_t)product < -range % range)
        return -1;
    return (int64_t)(product >> 32);
}

uint64_t fan_shuffle_libstdcxx(uint32_t *items, uint64_t count, uint64_t done,
                               const uint64_t *words, uint64_t word_count)
{
    int in_pairs = count && UINT32_MAX / count >= count; /* one draw gives two places */

    for (uint64_t i = 0; i < word_count && done < count; i++) {
        int pair = in_pairs && (done > 1 || count % 2);
        uint64_t range = done + 1;
        int64_t drawn = below(words[i], (uint32_t)(pair ? range * (range + 1) : range));
        if (drawn < 0)
            continue;
        swap(items, done++, (uint64_t)drawn / (pair ? range + 1 : 1));
        if (pair)
            swap(items, done++, (uint64_t)drawn % (range + 1));
    }
    return done;
}

void fan_shuffle_buffer(uint32_t *items, uint64_t count, uint32_t *buffer, uint64_t buffer_count,
                        const uint64_t *words)
{
    uint64_t filled = 0;

    for (uint64_t taken = 0; taken < count; taken++) {
        for (; filled < count && filled - taken < buffer_count; filled++)
            buffer[filled % buffer_count] = items[filled];
        uint64_t place = (taken + (uint32_t)words[taken] % (filled - taken)) % buffer_count;
        items[taken] = buffer[place];
        buffer[place] = buffer[taken % buffer_count];
    }
}
