/*
 * Partial packs on the local disk (resident_format.h). Any thread may call these functions.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../common/index.h"

/* The partial packs of one dataset. making: held while a partial pack is made. coming: a bit for
 * each record that a thread of this process fetches now, changed under `fetching`; came: signalled
 * when such a thread is done. sums: of a planned dataset, the XXH3-64 of each record that was kept,
 * mapped from the file `sums` in `dir`; else NULL. */
struct fan_partial {
    const struct fan_index *index;
    const char *dir;
    char *base;
    uint64_t bytes;
    uint64_t *inodes;
    uint64_t *bits;
    uint64_t *claims;
    uint64_t *sums;
    uint64_t *coming;
    pthread_mutex_t making;
    pthread_mutex_t fetching;
    pthread_cond_t came;
};

/* Maps the file `resident` in `dir`; the caller still owns `dir` and `index`. Returns 0, -EINVAL
 * (the file is not of this dataset), or -errno. */
int fan_partial_init(struct fan_partial *partial, const struct fan_index *index, const char *dir);

/* Unmaps the file and frees the locks. Accepts a zeroed struct. */
void fan_partial_fini(struct fan_partial *partial);

/* Returns whether a record is resident: then its bytes may be read. */
static inline bool fan_partial_has(const struct fan_partial *partial, uint64_t id)
{
    return (__atomic_load_n(&partial->bits[id / 64], __ATOMIC_ACQUIRE) >> id % 64 & 1) != 0;
}

/* Returns whether an earlier job left a claim that a record is resident, and no job has checked the
 * record's bytes since. */
static inline bool fan_partial_is_claimed(const struct fan_partial *partial, uint64_t id)
{
    return !fan_partial_has(partial, id) &&
           (__atomic_load_n(&partial->claims[id / 64], __ATOMIC_RELAXED) >> id % 64 & 1) != 0;
}

/* Removes the claim of an earlier job for a record. */
static inline void fan_partial_drop_claim(struct fan_partial *partial, uint64_t id)
{
    __atomic_fetch_and(&partial->claims[id / 64], ~(UINT64_C(1) << id % 64), __ATOMIC_RELAXED);
}

/* Makes this thread the only one of the process that fetches a record. Returns false if another
 * thread fetches it. */
bool fan_partial_try_begin(struct fan_partial *partial, uint64_t id);

/* Does what fan_partial_try_begin does, but first waits for the other thread. Returns -EBUSY after
 * a while: that thread waits for a disk, perhaps forever. */
int fan_partial_begin(struct fan_partial *partial, uint64_t id);

/* Ends the fetching of a record that this thread has begun. */
void fan_partial_end(struct fan_partial *partial, uint64_t id);

/* Opens a partial pack for reading; with to_write, opens it for writing and creates it if needed.
 * Returns a descriptor, -ESTALE (another file has its name), or -errno. */
int fan_partial_open(struct fan_partial *partial, uint32_t pack, bool to_write);

/* Marks a record as resident. Call it after the record's bytes were written and checked. */
void fan_partial_set(struct fan_partial *partial, uint64_t id);
