/*
 * Checks every record of an index, for verify and extract, which trust all of them. Serving does
 * not need this: it checks each offset when it uses it.
 */
#ifndef FAN_PREPARE_CHECK_RECORDS_H
#define FAN_PREPARE_CHECK_RECORDS_H

#include <stdint.h>

/* cffi: begin */
/* Checks types, parents, names and their order, owners, and the references to content, targets and
 * children. Returns 0; -EIO and sets the first bad record and the static name of its bad field; or
 * -EINVAL if the header is not valid. */
int fan_core_check_records(const void *base, uint64_t bytes, uint64_t *record, const char **field);

/* Checks that every record can be found by its path, and that its dentry has the same fields; check
 * the records first. Returns 0, also for an index with slots; -EIO and sets the first bad record;
 * or -EINVAL. */
int fan_core_check_dentries(const void *base, uint64_t bytes, uint64_t *record);
/* cffi: end */

#endif
