/* Shuffles for access orders in which each step depends on the one before, so that NumPy cannot do
 * them in one operation. Pure: no clock, no allocation, no state except the arguments. Random words
 * are 32 bits in the low half of 64, as NumPy's random_raw returns them. There are fewer than 2^32
 * items. A shuffle may be split into calls with any number of words: `done` is the number of steps
 * done before. */
#pragma once

#include <stdint.h>

/* cffi: begin */
/* Fisher-Yates from the front (torch.randperm): step i swaps item i with one of the items i to
 * `count` - 1, chosen by a word modulo their number. A step takes one word. The call does the steps
 * after `done` until the words are used up, or count - 1 steps are done. */
void fan_shuffle_front(uint32_t *items, uint64_t count, uint64_t done, const uint64_t *words,
                       uint64_t word_count);

/* Fisher-Yates inside out (torch.randperm of very many): step i moves one of the items 0 to i to
 * place i and puts i in its place. A step takes two words, the high half first. */
void fan_shuffle_inside_out(uint32_t *items, uint64_t count, uint64_t done, const uint64_t *words,
                            uint64_t word_count);

/* std::shuffle of libstdc++ (GCC 11 and newer) with a generator of 32-bit words. Returns how many
 * items are in place; a draw may reject words, so it may take more words than there are items.
 * `done` is the result of the previous call, 1 in the first. */
uint64_t fan_shuffle_libstdcxx(uint32_t *items, uint64_t count, uint64_t done,
                               const uint64_t *words, uint64_t word_count);

/* A shuffle through a buffer (tf.data): reorders the `count` items from the order in which they
 * enter a buffer of `buffer_count` (not 0) to the order in which they leave it; a word modulo the
 * number of items in the buffer chooses the next to leave. `buffer` has room for buffer_count
 * items; there are as many words as items. */
void fan_shuffle_buffer(uint32_t *items, uint64_t count, uint32_t *buffer, uint64_t buffer_count,
                        const uint64_t *words);
/* cffi: end */
