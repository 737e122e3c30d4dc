/*
 * The blocks that a hint brought and that no one has read since, as far as the daemon can see: a
 * client that finds a block in the cache only marks it. Unread blocks stay even if no one has their
 * file open, because someone is about to open it.
 */
#ifndef FAN_NODE_UNREAD_H
#define FAN_NODE_UNREAD_H

#include <stdbool.h>
#include <stdint.h>

struct fan_blockcache;

/* enter adds a ready frame to the unread ones; leave removes it, if it is one. */
void fan_unread_enter(struct fan_blockcache *cache, uint32_t id);
void fan_unread_leave(struct fan_blockcache *cache, uint32_t id);

/* Whether a frame is still unread. */
bool fan_unread_is(struct fan_blockcache *cache, uint32_t id);

/* Whether a client has used a ready frame since the last call. A frame that was used is no longer
 * unread. */
bool fan_unread_take_touched(struct fan_blockcache *cache, uint32_t id);

/* How many granules the unread frames take. First checks a few of them for use, different ones at
 * each call. */
uint32_t fan_unread_granules(struct fan_blockcache *cache);

#endif
