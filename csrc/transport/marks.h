/*
 * Marks where an answer is to come, which tell whether it did.
 *
 * MPICH (ch4, seen with 5.0.2 over UCX and TCP) reports success of a receive whose sender was
 * killed before the bytes came. What was not written over shows, unless less than a page is
 * missing.
 */
#ifndef FAN_TRANSPORT_MARKS_H
#define FAN_TRANSPORT_MARKS_H

#include <stdbool.h>
#include <stdint.h>

/* Writes `mark`, a number drawn by chance, on every page of `bytes` (8 or more) and at their end.
 */
void fan_marks_put(uint64_t mark, void *to, uint32_t bytes);

/* Whether one of them is still there. */
bool fan_marks_left(uint64_t mark, const void *from, uint32_t bytes);

#endif
