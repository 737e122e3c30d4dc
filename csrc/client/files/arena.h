/*
 * Arenas: memory files that hold slots. Each process makes one of its own at its first open, and
 * keeps using the arenas that it inherited by fork or exec. The kernel frees an arena when the last
 * process that uses it ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { FAN_ARENA_SLOTS = 262144, FAN_ARENAS_MAX = 64 };

struct fan_slot;

/* Returns slot `number` of this process's own arena, which is made if needed. The slot's memory is
 * allocated. Returns NULL if there is no memory. */
struct fan_slot *fan_arena_slot(uint32_t number);

/* Returns whether `slot` is in this process's own arena. */
int fan_arena_is_own(const struct fan_slot *slot);

/* Finds the arena of a slot, and the slot's number in it. Returns the arena's parked descriptor, or
 * -ENOENT if it has none, in which case the arena cannot be passed on. */
int fan_arena_locate(const struct fan_slot *slot, uint32_t *number);

/* Returns the first slot of the arena of `slot`, or NULL. */
struct fan_slot *fan_arena_base(const struct fan_slot *slot);

/* Returns the parked descriptor of the store (store.h) that belongs to the arena of `slot`, or
 * -errno: -ENOENT if there is no store. make: make a store if there is none. */
int fan_arena_store(const struct fan_slot *slot, bool make);

/* Maps an arena that this process inherited through exec as descriptor `fd`, and parks `fd` and the
 * descriptor of its store (-1: none). Returns the arena's base or NULL. */
struct fan_slot *fan_arena_adopt(int fd, int store);

/* Call it in a fork child: the parent's own arena becomes an inherited one. */
void fan_arena_after_fork_child(void);
