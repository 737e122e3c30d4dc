#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "../common/sys.h"
#include "filetable.h"
#include "park.h"

#define ARENA_BYTES ((uint64_t)FAN_ARENA_SLOTS * sizeof(struct fan_slot))

struct arena {
    _Atomic(struct fan_slot *) base;
    int fd; /* parked; -1: anonymous, cannot be handed on through exec */
};

static struct arena arenas[FAN_ARENAS_MAX];
static _Atomic(struct fan_slot *) own;

static int file_limit_allows(uint64_t bytes)
{
    struct rlimit limit;
    return FAN_SYS(prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) == 0 && limit.rlim_cur >= bytes;
}

static int make_memory_file(void)
{
    if (!file_limit_allows(ARENA_BYTES)) /* growing it would raise SIGXFSZ */
        return -1;
    int fd = (int)FAN_SYS(memfd_create, "fanstore-slots", MFD_CLOEXEC);
    if (fd < 0 || FAN_SYS(ftruncate, fd, ARENA_BYTES) != 0) {
        if (fd >= 0)
            fan_sys_close(fd);
        return -1;
    }
    int parked = fan_park(fd);
    return parked < 0 ? -1 : parked;
}

static struct fan_slot *map_arena(int fd)
{
    int flags = fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
    long at = fan_sys_mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
    return fan_sys_failed(at) ? NULL : (struct fan_slot *)at;
}

static int enter(struct fan_slot *base, int fd)
{
    for (unsigned i = 0; i < FAN_ARENAS_MAX; i++) {
        struct fan_slot *expected = NULL;
        if (atomic_compare_exchange_strong(&arenas[i].base, &expected, base)) {
            arenas[i].fd = fd;
            return 0;
        }
    }
    return -ENFILE;
}

static void drop(struct fan_slot *base, int fd)
{
    fan_sys_munmap(base, ARENA_BYTES);
    if (fd >= 0)
        fan_unpark(fd);
}

static struct fan_slot *make_own(void)
{
    int fd = make_memory_file();
    struct fan_slot *base = map_arena(fd), *expected = NULL;
    if (base == NULL) {
        if (fd >= 0)
            fan_unpark(fd);
        return NULL;
    }
    if (!atomic_compare_exchange_strong(&own, &expected, base)) {
        drop(base, fd);
        return expected;
    }
    if (enter(base, fd) != 0 && fd >= 0)
        fan_unpark(fd); /* works on, but cannot be handed on through exec */
    return base;
}

struct fan_slot *fan_arena_slot(uint32_t number)
{
    struct fan_slot *base = atomic_load_explicit(&own, memory_order_acquire);
    if (__builtin_expect(base == NULL, 0))
        base = make_own();
    return base != NULL && number < FAN_ARENA_SLOTS ? base + number : NULL;
}

int fan_arena_is_own(const struct fan_slot *slot)
{
    const struct fan_slot *base = atomic_load_explicit(&own, memory_order_relaxed);
    return base != NULL && slot >= base && slot < base + FAN_ARENA_SLOTS;
}

int fan_arena_locate(const struct fan_slot *slot, uint32_t *number)
{
    for (unsigned i = 0; i < FAN_ARENAS_MAX; i++) {
        const struct fan_slot *base = atomic_load(&arenas[i].base);
        if (base != NULL && slot >= base && slot < base + FAN_ARENA_SLOTS) {
            *number = (uint32_t)(slot - base);
            return arenas[i].fd >= 0 ? arenas[i].fd : -ENOENT;
        }
    }
    return -ENOENT;
}

struct fan_slot *fan_arena_adopt(int fd)
{
    struct stat st;
    if (FAN_SYS(fstat, fd, &st) != 0 || (uint64_t)st.st_size != ARENA_BYTES)
        return NULL;
    int parked = fan_park(fd);
    if (parked < 0)
        return NULL;
    struct fan_slot *base = map_arena(parked);
    if (base == NULL || enter(base, parked) != 0) {
        if (base != NULL)
            fan_sys_munmap(base, ARENA_BYTES);
        fan_unpark(parked);
        return NULL;
    }
    return base;
}

void fan_arena_after_fork_child(void)
{
    atomic_store(&own, NULL);
}
