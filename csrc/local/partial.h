/*
 * The local disk as a storage class: packs that are here in part (resident_format.h). Any thread
 * may call these.
 */
#ifndef FAN_LOCAL_PARTIAL_H
#define FAN_LOCAL_PARTIAL_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../common/index.h"

enum { FAN_PARTIAL_LOCKS = 64 };

/* The partial packs of one dataset. making: held while a partial pack is made; locks: for records
 * by their number, held while a record is fetched. sums: of a planned dataset, the XXH3-64 of each
 * record that was kept, mapped from the file `sums` in `dir`; else NULL. */
struct fan_partial {
    const struct fan_index *index;
    const char *dir;
    char *base;
    uint64_t bytes;
    uint64_t *inodes;
    uint64_t *bits;
    uint64_t *claims;
    uint64_t *sums;
    pthread_mutex_t making;
    pthread_mutex_t locks[FAN_PARTIAL_LOCKS];
};

/* Maps the file `resident` in `dir`; the caller still owns `dir` and `index`. Returns 0, -EINVAL
 * (the file is not of this dataset), or -errno. */
int fan_partial_init(struct fan_partial *partial, const struct fan_index *index, const char *dir);

/* Frees it. Accepts a zeroed struct. */
void fan_partial_fini(struct fan_partial *partial);

/* Whether a record is here. If so, its bytes may be read. */
static inline bool fan_partial_has(const struct fan_partial *partial, uint64_t id)
{
    return (__atomic_load_n(&partial->bits[id / 64], __ATOMIC_ACQUIRE) >> id % 64 & 1) != 0;
}

/* Whether an earlier job left a claim that a record is here, and no one has checked its bytes
 * since. */
static inline bool fan_partial_is_claimed(const struct fan_partial *partial, uint64_t id)
{
    return !fan_partial_has(partial, id) &&
           (__atomic_load_n(&partial->claims[id / 64], __ATOMIC_RELAXED) >> id % 64 & 1) != 0;
}

/* Forgets the claim of an earlier job for a record. */
static inline void fan_partial_drop_claim(struct fan_partial *partial, uint64_t id)
{
    __atomic_fetch_and(&partial->claims[id / 64], ~(UINT64_C(1) << id % 64), __ATOMIC_RELAXED);
}

/* The lock to hold while a record is fetched, so that others that want it wait. */
static inline pthread_mutex_t *fan_partial_lock(struct fan_partial *partial, uint64_t id)
{
    return &partial->locks[id % FAN_PARTIAL_LOCKS];
}

/* Opens a partial pack for reading or, with to_write, for writing, and then makes it if there is
 * none. Returns a descriptor, -ESTALE (another file lies there) or -errno. */
int fan_partial_open(struct fan_partial *partial, uint32_t pack, bool to_write);

/* Marks a record as here, after its bytes were written and checked. */
void fan_partial_set(struct fan_partial *partial, uint64_t id);

#endif
