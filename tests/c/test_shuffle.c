/* Shuffles keep every item, touch nothing else, and do not depend on how words are given. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../csrc/policy/shuffle.h"
#include "check.h"

enum { COUNTS = 150, STRETCH = 14 };

static uint64_t *drawn(uint64_t count)
{
    uint64_t *words = malloc(count * sizeof(*words) + 1);
    uint64_t state = 88172645463325252;

    CHECK(words);
    for (uint64_t i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words[i] = (uint32_t)state;
    }
    return words;
}

static uint32_t *numbers(uint64_t count)
{
    uint32_t *items = malloc(count * sizeof(*items) + 1);

    CHECK(items);
    for (uint64_t i = 0; i < count; i++)
        items[i] = (uint32_t)i;
    return items;
}

static void check_keeps_all(const uint32_t *items, uint64_t count)
{
    uint8_t *seen = calloc(count + 1, 1);

    CHECK(seen);
    for (uint64_t i = 0; i < count; i++) {
        CHECK(items[i] < count);
        CHECK(!seen[items[i]]++);
    }
    free(seen);
}

typedef void shuffle(uint32_t *items, uint64_t count, uint64_t done, const uint64_t *words,
                     uint64_t word_count);

static void check_stretches(shuffle *of, uint64_t count, uint64_t words_a_step)
{
    uint64_t word_count = count * words_a_step;
    uint64_t *words = drawn(word_count);
    uint32_t *whole = numbers(count), *items = numbers(count);

    of(whole, count, 0, words, word_count);
    check_keeps_all(whole, count);
    for (uint64_t at = 0; at < word_count; at += STRETCH) {
        uint64_t some = word_count - at < STRETCH ? word_count - at : STRETCH;
        uint64_t *stretch = malloc(some * sizeof(*stretch)); /* of that size, for the sanitizer */
        CHECK(stretch);
        memcpy(stretch, words + at, some * sizeof(*stretch));
        of(items, count, at / words_a_step, stretch, some);
        free(stretch);
    }
    CHECK(memcmp(whole, items, count * sizeof(*items)) == 0);
    free(words);
    free(whole);
    free(items);
}

static void check_libstdcxx(uint64_t count)
{
    uint64_t *words = drawn(10 * COUNTS);
    uint32_t *whole = numbers(count), *items = numbers(count);
    uint64_t done = 1;

    CHECK(fan_shuffle_libstdcxx(whole, count, 1, words, 10 * COUNTS) == (count ? count : 1));
    check_keeps_all(whole, count);
    for (uint64_t at = 0; done < count; at += STRETCH)
        done = fan_shuffle_libstdcxx(items, count, done, words + at, STRETCH);
    CHECK(memcmp(whole, items, count * sizeof(*items)) == 0);
    free(words);
    free(whole);
    free(items);
}

static void check_buffer(uint64_t count, uint64_t buffer_count)
{
    uint64_t *words = drawn(count);
    uint32_t *items = numbers(count), *buffer = numbers(buffer_count);

    fan_shuffle_buffer(items, count, buffer, buffer_count, words);
    check_keeps_all(items, count);
    for (uint64_t i = 0; i < count; i++)
        CHECK(items[i] < i + buffer_count);
    free(words);
    free(items);
    free(buffer);
}

int main(void)
{
    for (uint64_t count = 0; count < COUNTS; count++) {
        check_stretches(fan_shuffle_front, count, 1);
        check_stretches(fan_shuffle_inside_out, count, 2);
        check_libstdcxx(count);
        for (uint64_t buffer_count = 1; buffer_count <= count + 2; buffer_count += 7)
            check_buffer(count, buffer_count);
    }
    return 0;
}
