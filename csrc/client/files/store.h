/*
 * A store: descriptors kept for all processes that share an arena, in the queue of a socket that is
 * connected to itself. It is made before a fork, inherited, handed on through exec, and goes with
 * its last holder; nobody serves it.
 *
 * All answers are -errno on failure. Nothing allocates or locks; safe in signal handlers and in
 * vfork children.
 */
#ifndef FAN_CLIENT_STORE_H
#define FAN_CLIENT_STORE_H

#include <stdbool.h>
#include <stdint.h>

/* Kept with each descriptor, to tell it from the others. */
struct fan_store_tag {
    int64_t key;
    uint64_t slot;
};

/* A new store's descriptor, closed on exec. */
int fan_store_new(void);

/* Says whether an entry is of no use any more. */
typedef bool fan_store_stale(const struct fan_store_tag *tag, const void *context);

/* Keeps a duplicate of `fd`. Where much is kept already, some stale entries are dropped. 0 or
 * -errno: -EAGAIN, -ETOOMANYREFS when nothing more fits. */
int fan_store_put(int store, const struct fan_store_tag *tag, int fd, fan_store_stale *is_stale,
                  const void *context);

/* A descriptor, closed on exec, kept under `key`. -ENOENT when there is none. */
int fan_store_get(int store, int64_t key);

#endif
