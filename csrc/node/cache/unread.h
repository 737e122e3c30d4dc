/*
 * The blocks that were fetched for a hint and that no client has read since, as far as the daemon
 * knows: a client that finds a block in the cache only sets its mark. Unread blocks stay even if no
 * client has their file open, because one will open it soon.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fan_blockcache;

/* enter adds a ready frame to the unread ones; leave removes it if it is among them. */
void fan_unread_enter(struct fan_blockcache *cache, uint32_t id);
void fan_unread_leave(struct fan_blockcache *cache, uint32_t id);

/* Returns whether a frame is still unread. */
bool fan_unread_is(struct fan_blockcache *cache, uint32_t id);

/* Returns whether a client has used a ready frame since the last call. A frame that was used is no
 * longer unread. */
bool fan_unread_take_touched(struct fan_blockcache *cache, uint32_t id);

/* Returns how many granules the unread frames take. First checks whether a few of them were used,
 * others at each call. */
uint32_t fan_unread_granules(struct fan_blockcache *cache);
