/* The shuffles whose steps follow from each other: what an access order needs that NumPy cannot do
 * at once. Pure: no clock, no allocation, no state but the arguments. Random words are 32 bits in
 * the low half of 64, as NumPy's random_raw gives them. There are less than 2^32 items. A shuffle
 * is done in stretches of words of any length: `done` says how many steps came before. */
#ifndef FAN_POLICY_SHUFFLE_H
#define FAN_POLICY_SHUFFLE_H

#include <stdint.h>

/* cffi: begin */
/* Fisher-Yates from the front (torch.randperm): step i swaps item i with one of the items i to
 * `count` - 1, chosen by a word modulo their number. A step takes one word, and the steps
 * after `done` are taken as far as the words go, at most to count - 1. */
void fan_shuffle_front(uint32_t *items, uint64_t count, uint64_t done, const uint64_t *words,
                       uint64_t word_count);

/* Fisher-Yates inside out (torch.randperm of very many): step i moves one of the items 0 to i to
 * place i and puts i in its place. A step takes two words, the high half first. */
void fan_shuffle_inside_out(uint32_t *items, uint64_t count, uint64_t done, const uint64_t *words,
                            uint64_t word_count);

/* std::shuffle of libstdc++ (GCC 11 and newer) with a generator of 32-bit words. Returns how many
 * items are in place; a draw may refuse words, so that more of them are needed than items.
 * `done` is what the last call returned, 1 before the first. */
uint64_t fan_shuffle_libstdcxx(uint32_t *items, uint64_t count, uint64_t done,
                               const uint64_t *words, uint64_t word_count);

/* A shuffle through a buffer (tf.data): `items` holds `count` items in the order in which they
 * come, and then in the order in which they leave a buffer of `buffer_count` (not 0), each chosen
 * from those in it by a word modulo their number. `buffer` has room for buffer_count items; there
 * are as many words as items. */
void fan_shuffle_buffer(uint32_t *items, uint64_t count, uint32_t *buffer, uint64_t buffer_count,
                        const uint64_t *words);
/* cffi: end */

#endif
