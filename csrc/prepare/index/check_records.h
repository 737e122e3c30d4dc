/*
 * Checking every record of an index at once, for those who are about to trust all of them: verify
 * and extract. Serving needs none of it; there each reference is checked where it is used.
 */
#ifndef FAN_PREPARE_CHECK_RECORDS_H
#define FAN_PREPARE_CHECK_RECORDS_H

#include <stdint.h>

/* cffi: begin */
/* Checks types, parents, names and their order, owners, and what content, targets and children
 * refer to. 0; -EIO with the first bad record and the static name of its bad field; or -EINVAL
 * when the header is not valid. */
int fan_core_check_records(const void *base, uint64_t bytes, uint64_t *record, const char **field);

/* Checks that every record is found by its path, and that its dentry says what it says; once the
 * records are sound. 0, also where there are slots; -EIO with the first that is not; or -EINVAL. */
int fan_core_check_dentries(const void *base, uint64_t bytes, uint64_t *record);
/* cffi: end */

#endif
