/*
 * The blocks that a hint brought and that nobody has read since, as far as the daemon knows: a
 * client that finds a block in the cache says nothing, but marks it. They stay when nobody has
 * their file open, for somebody is about to open it.
 */
#ifndef FAN_NODE_UNREAD_H
#define FAN_NODE_UNREAD_H

#include <stdbool.h>
#include <stdint.h>

struct fan_blockcache;

/* A ready frame becomes one of them; is no longer one, if it was. */
void fan_unread_enter(struct fan_blockcache *cache, uint32_t id);
void fan_unread_leave(struct fan_blockcache *cache, uint32_t id);

/* Whether a frame is still one. */
bool fan_unread_is(struct fan_blockcache *cache, uint32_t id);

/* Whether a client has used a ready frame since this was last asked. One that it has used is unread
 * no longer. */
bool fan_unread_take_touched(struct fan_blockcache *cache, uint32_t id);

/* How many granules they take. Looks at a few of them first, others each time. */
uint32_t fan_unread_granules(struct fan_blockcache *cache);

#endif
