/*
 * Memory that grows with the size of a source: at first on the heap, later in an unnamed file,
 * whose pages the kernel writes out if memory is short. The file disappears with its last user,
 * however the program ends.
 */
#pragma once

#include <stdint.h>

/* cffi: begin */
/* bytes: zeroed until written. fd: the file, -1 while there is none. dir_fd: the directory for the
 * file, borrowed; -1: use the heap only. heap_bytes: the size above which the content moves to the
 * file. */
struct fan_room {
    char *base;
    uint64_t bytes;
    uint64_t heap_bytes;
    int dir_fd;
    int fd;
};

/* Makes an empty room. */
void fan_room_init(struct fan_room *room, int dir_fd, uint64_t heap_bytes);

/* Grows a room to at least `bytes`; `base` may change. Returns 0 or -errno. -ENOSPC: the disk is
 * full; otherwise using the memory could raise a signal. */
int fan_room_grow(struct fan_room *room, uint64_t bytes);

/* Drops the file's pages from the process's memory; they come back when they are used. */
void fan_room_release(struct fan_room *room);

/* Frees a room; accepts an empty one. */
void fan_room_fini(struct fan_room *room);

/* Makes an unnamed file in a directory, open for reading and writing. Returns a descriptor or
 * -errno. */
int fan_room_file(int dir_fd);
/* cffi: end */
