#include "room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file grows to twice its size, but by at most this. */
static const uint64_t STEP_MAX_BYTES = UINT64_C(64) << 20;
static const uint64_t PAGE_BYTES = 4096;

void fan_room_init(struct fan_room *room, int dir_fd, uint64_t heap_bytes)
{
    *room = (struct fan_room){.heap_bytes = heap_bytes, .dir_fd = dir_fd, .fd = -1};
}

int fan_room_file(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    /* The name of a file that is removed at once, for file systems without nameless files
     * (O_TMPFILE). */
    static const char NAME[] = "room";
    fd = openat(dir_fd, NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    unlinkat(dir_fd, NAME, 0);
    return fd;
}

static int grow_heap(struct fan_room *room, uint64_t bytes)
{
    char *moved = realloc(room->base, bytes);
    if (moved == NULL)
        return -ENOMEM;
    memset(moved + room->bytes, 0, bytes - room->bytes);
    room->base = moved;
    room->bytes = bytes;
    return 0;
}

static int reserve(int fd, uint64_t from, uint64_t bytes)
{
    int rc;
    do
        rc = posix_fallocate(fd, (off_t)from, (off_t)(bytes - from));
    while (rc == EINTR);
    return -rc;
}

static char *map(struct fan_room *room, uint64_t bytes, uint64_t mapped)
{
    if (mapped > 0)
        return mremap(room->base, mapped, bytes, MREMAP_MAYMOVE);
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, room->fd, 0);
}

static int grow_file(struct fan_room *room, uint64_t bytes)
{
    uint64_t mapped = room->fd >= 0 ? room->bytes : 0;
    int rc = 0;
    if (room->fd < 0)
        rc = room->fd = fan_room_file(room->dir_fd);
    if (rc < 0)
        return rc;
    rc = reserve(room->fd, mapped, bytes);
    char *base = rc == 0 ? map(room, bytes, mapped) : MAP_FAILED;
    if (base == MAP_FAILED) {
        rc = rc != 0 ? rc : -errno;
        if (mapped == 0) {
            close(room->fd);
            room->fd = -1;
        }
        return rc;
    }
    if (mapped == 0) {
        if (room->bytes > 0)
            memcpy(base, room->base, room->bytes);
        free(room->base);
    }
    room->base = base;
    room->bytes = bytes;
    fan_room_release(room); /* rooms are filled in order: earlier pages are not needed soon */
    return 0;
}

int fan_room_grow(struct fan_room *room, uint64_t bytes)
{
    if (bytes <= room->bytes)
        return 0;
    uint64_t step = room->bytes < STEP_MAX_BYTES ? room->bytes : STEP_MAX_BYTES;
    if (bytes < room->bytes + step)
        bytes = room->bytes + step;
    bytes = (bytes + PAGE_BYTES - 1) & -PAGE_BYTES;
    bool on_heap = room->dir_fd < 0 || (room->fd < 0 && bytes <= room->heap_bytes);
    return on_heap ? grow_heap(room, bytes) : grow_file(room, bytes);
}

void fan_room_release(struct fan_room *room)
{
    if (room->fd >= 0)
        madvise(room->base, room->bytes, MADV_DONTNEED);
}

void fan_room_fini(struct fan_room *room)
{
    if (room->fd >= 0) {
        munmap(room->base, room->bytes);
        close(room->fd);
    } else {
        free(room->base);
    }
    room->base = NULL;
    room->bytes = 0;
    room->fd = -1;
}
