/*
 * Hands reads of objects to the threads that fetch from a bucket. These are Python's, because the
 * library that speaks to buckets is (fanstore/node/objects.py). A reader's thread puts its read in
 * a queue and waits; a fetching thread takes it, and later gives the bytes or an error. A reader
 * may leave before: what is given then is dropped, so nobody writes to memory that is not his.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../machine/queue.h"
#include "../machine/transport.h"

/* cffi: begin */
/* A part of an object to fetch: `bytes` from `offset` on, of an object with this size and this
 * state (common/original.h). ticket: tells the read to fan_node_give_object. */
struct fan_object_part {
    uint64_t ticket;
    uint64_t offset;
    uint64_t bytes;
    uint64_t size;
    uint64_t state;
    uint32_t mount;
    uint32_t path_bytes;
};
/* cffi: end */

struct fan_mounts;

enum { FAN_OBJECTS_GIVEN = 64 };

/* given: a reader waits on one of these, so that few others are woken with it. asked_count: how
 * many reads were ever asked for. waiting: the reads that nobody has taken. */
struct fan_objects {
    pthread_mutex_t lock;
    pthread_cond_t asked;
    pthread_cond_t given[FAN_OBJECTS_GIVEN];
    uint64_t asked_count;
    struct fan_queue waiting[FAN_URGENCIES];
    bool ending;
};

void fan_objects_init(struct fan_objects *objects);
void fan_objects_fini(struct fan_objects *objects);

struct fan_object_read;

/* Asks for bytes of a record's object, which are to come to `to`. The request must stay as it is.
 * Returns the read, or NULL. */
struct fan_object_read *fan_object_ask(struct fan_objects *objects,
                                       const struct fan_fetch_request *request, void *to);

/* Waits until a fetching thread has given the bytes, and frees the read, which may be NULL. Returns
 * 0; -ESTALE: the object has changed since the listing, or is gone; -ECANCELED: the node ends; or
 * -errno. */
int fan_object_wait(struct fan_objects *objects, struct fan_object_read *read);

/* Waits for a read and takes it. path: gets the relpath of its record. Returns 0, or -ESHUTDOWN
 * when the node ends. */
int fan_objects_take(struct fan_mounts *mounts, struct fan_object_part *part, char *path,
                     uint32_t room);

/* Ends a read that was taken: copies the bytes at `from`, or passes on `error`, a -errno. */
void fan_objects_give(struct fan_objects *objects, uint64_t ticket, const void *from, int error);

/* Has readers leave, and fetching threads take nothing more. */
void fan_objects_end(struct fan_objects *objects);
