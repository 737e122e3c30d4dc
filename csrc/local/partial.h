/*
 * The local disk as a storage class: packs that are here in part (resident_format.h). By any
 * thread.
 */
#ifndef FAN_LOCAL_PARTIAL_H
#define FAN_LOCAL_PARTIAL_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../common/index.h"

enum { FAN_PARTIAL_LOCKS = 64 };

/* One dataset's. making: held by who makes a partial pack; locks: of records by their number, held
 * by who brings one here. */
struct fan_partial {
    const struct fan_index *index;
    const char *dir;
    char *base;
    uint64_t bytes;
    uint64_t *inodes;
    uint64_t *bits;
    uint64_t *claims;
    pthread_mutex_t making;
    pthread_mutex_t locks[FAN_PARTIAL_LOCKS];
};

/* Maps `resident` in `dir`, which stays the caller's, as the index does. 0, -EINVAL (it is not of
 * this dataset), or -errno. */
int fan_partial_init(struct fan_partial *partial, const struct fan_index *index, const char *dir);

/* Accepts a zeroed one. */
void fan_partial_fini(struct fan_partial *partial);

/* Whether a record is here. Its bytes may be read then. */
static inline bool fan_partial_has(const struct fan_partial *partial, uint64_t id)
{
    return (__atomic_load_n(&partial->bits[id / 64], __ATOMIC_ACQUIRE) >> id % 64 & 1) != 0;
}

/* Whether an earlier job says that a record is here, and nobody has checked its bytes since. */
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

/* For whoever brings a record here: others that want the same wait. */
static inline pthread_mutex_t *fan_partial_lock(struct fan_partial *partial, uint64_t id)
{
    return &partial->locks[id % FAN_PARTIAL_LOCKS];
}

/* Opens the partial pack: to write to it, which makes it where there is none, or to read. A
 * descriptor, -ESTALE (something else lies there) or -errno. */
int fan_partial_open(struct fan_partial *partial, uint32_t pack, bool to_write);

/* A record's bytes are written and right: it is here from now on. */
void fan_partial_set(struct fan_partial *partial, uint64_t id);

#endif
