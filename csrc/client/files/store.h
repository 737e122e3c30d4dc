/*
 * A store keeps descriptors for all processes that share an arena, in the queue of a socket that is
 * connected to itself. It is made before a fork, inherited, passed on through exec, and ends with
 * the last process that holds it. It needs no server.
 *
 * Functions return -errno on failure. None allocates or takes a lock: all are safe in signal
 * handlers and in vfork children.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Stored with each descriptor to identify it. */
struct fan_store_tag {
    int64_t key;
    uint64_t slot;
};

/* Makes a store. Returns its descriptor, close-on-exec. */
int fan_store_new(void);

/* A function that returns whether an entry is not needed any more. */
typedef bool fan_store_stale(const struct fan_store_tag *tag, const void *context);

/* Stores a duplicate of `fd`. If the store is rather full, drops some stale entries first. Returns
 * 0 or -errno: -EAGAIN or -ETOOMANYREFS if nothing more fits. */
int fan_store_put(int store, const struct fan_store_tag *tag, int fd, fan_store_stale *is_stale,
                  const void *context);

/* Returns the descriptor stored under `key`, close-on-exec; -ENOENT if there is none. */
int fan_store_get(int store, int64_t key);
