/* Keeping each distinct run of bytes once: the names section of the index. */
#ifndef FAN_PREPARE_INTERN_H
#define FAN_PREPARE_INTERN_H

#include <stdint.h>

/* cffi: begin */
/* Copies the `count` runs source + offsets[i], lengths[i] bytes each, to `out` (room for all),
 * equal ones once, in the order in which they first come. places[i] is where run i lies in
 * `out`. Returns the bytes used, or -ENOMEM. */
int64_t fan_intern(const char *source, const uint64_t *offsets, const uint32_t *lengths,
                   uint64_t count, char *out, uint64_t *places);
/* cffi: end */

#endif
