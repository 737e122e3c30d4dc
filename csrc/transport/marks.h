/*
 * Marks in the memory where an answer will arrive, to detect whether it did.
 *
 * MPICH (ch4, seen with 5.0.2 over UCX and TCP) reports success for a receive whose sender was
 * killed before the bytes came. A mark that is still there shows this, unless less than a page is
 * missing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Writes `mark`, a random number, to every page of `bytes` (8 or more) and to their end. */
void fan_marks_put(uint64_t mark, void *to, uint32_t bytes);

/* Returns whether any mark is still there. */
bool fan_marks_left(uint64_t mark, const void *from, uint32_t bytes);
