/*
 * Memory that grows with a source: small on the heap, larger in a file without a name, whose pages
 * the system writes out when memory gets short. The file is gone when nobody uses it any more,
 * however the program ends.
 */
#ifndef FAN_PREPARE_ROOM_H
#define FAN_PREPARE_ROOM_H

#include <stdint.h>

/* cffi: begin */
/* bytes: zeroed until written. fd: the file, -1 while there is none. dir_fd: where it is made,
 * borrowed; -1: the heap alone. heap_bytes: more of them go to the file. */
struct fan_room {
    char *base;
    uint64_t bytes;
    uint64_t heap_bytes;
    int dir_fd;
    int fd;
};

/* An empty room. */
void fan_room_init(struct fan_room *room, int dir_fd, uint64_t heap_bytes);

/* Makes at least `bytes` of room; `base` may change. 0 or -errno: -ENOSPC where the disk is full,
 * which is told here and not by a signal when the memory is used. */
int fan_room_grow(struct fan_room *room, uint64_t bytes);

/* Lets the process do without the pages of the file; they come back when they are used. */
void fan_room_release(struct fan_room *room);

/* Frees all; accepts an empty room. */
void fan_room_fini(struct fan_room *room);

/* A file without a name in a directory, read and written. A descriptor or -errno. */
int fan_room_file(int dir_fd);
/* cffi: end */

#endif
