/*
 * Arenas: memory files that hold slots. Each process makes one of its own at its first open and
 * goes on using those that it inherited by fork or exec. Kernel-owned: nothing outlives the
 * processes that use it.
 */
#ifndef FAN_CLIENT_ARENA_H
#define FAN_CLIENT_ARENA_H

#include <stdbool.h>
#include <stdint.h>

enum { FAN_ARENA_SLOTS = 262144, FAN_ARENAS_MAX = 64 };

struct fan_slot;

/* Slot `number` of this process's own arena, made when there is none yet. It can be written. NULL:
 * no memory. */
struct fan_slot *fan_arena_slot(uint32_t number);

/* Whether `slot` lies in this process's own arena. */
int fan_arena_is_own(const struct fan_slot *slot);

/* Finds the arena of a slot: its index and the slot's number in it. The parked descriptor of the
 * arena, or -ENOENT when it has none (it cannot be handed on). */
int fan_arena_locate(const struct fan_slot *slot, uint32_t *number);

/* The first slot of the arena that `slot` lies in, or NULL. */
struct fan_slot *fan_arena_base(const struct fan_slot *slot);

/* The parked descriptor of the store (store.h) beside the arena of `slot`, made where there is none
 * and `make` says so. Or -errno: -ENOENT when there is none. */
int fan_arena_store(const struct fan_slot *slot, bool make);

/* Maps an arena inherited through exec as descriptor `fd`, which is parked, as is its store (-1:
 * none). Its base or NULL. */
struct fan_slot *fan_arena_adopt(int fd, int store);

/* In a fork child: the parent's own arena is now an inherited one. */
void fan_arena_after_fork_child(void);

#endif
