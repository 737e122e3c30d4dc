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
    atomic_int fd; /* holder; empty: anonymous, cannot be handed on through exec */
};

static struct arena arenas[FAN_ARENAS_MAX];

/* The own arena's address lies on a page that the kernel empties in a fork child, however it was
 * made: the child's first open makes an arena of its own. */
static _Atomic(_Atomic(struct fan_slot *) *) own_page;

static _Atomic(struct fan_slot *) *own_place(void)
{
    _Atomic(struct fan_slot *) *page = atomic_load_explicit(&own_page, memory_order_acquire);
    if (__builtin_expect(page != NULL, 1))
        return page;
    long at = fan_sys_mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fan_sys_failed(at))
        return NULL;
    FAN_SYS(madvise, at, 4096, MADV_WIPEONFORK);
    if (atomic_compare_exchange_strong(&own_page, &page, (_Atomic(struct fan_slot *) *)at))
        return (_Atomic(struct fan_slot *) *)at;
    fan_sys_munmap((void *)at, 4096);
    return page;
}

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
    if (fd >= 0 && FAN_SYS(ftruncate, fd, ARENA_BYTES) == 0)
        return fd;
    if (fd >= 0)
        fan_sys_close(fd);
    return -1;
}

static struct fan_slot *map_arena(int fd)
{
    int flags = fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
    long at = fan_sys_mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
    return fan_sys_failed(at) ? NULL : (struct fan_slot *)at;
}

/* Enters a mapping, and parks its descriptor (-1: none) beside it. A full table costs only the
 * handing on through exec. */
static void enter(struct fan_slot *base, int fd)
{
    for (unsigned i = 0; i < FAN_ARENAS_MAX; i++) {
        struct fan_slot *expected = NULL;
        if (atomic_compare_exchange_strong(&arenas[i].base, &expected, base)) {
            if (fd >= 0)
                fan_park(fd, &arenas[i].fd);
            return;
        }
    }
    if (fd >= 0)
        fan_sys_close(fd);
}

static struct fan_slot *make_own(_Atomic(struct fan_slot *) *own)
{
    int fd = make_memory_file();
    struct fan_slot *base = map_arena(fd), *expected = NULL;
    if (base != NULL && atomic_compare_exchange_strong(own, &expected, base)) {
        enter(base, fd);
        return base;
    }
    if (fd >= 0)
        fan_sys_close(fd);
    if (base != NULL)
        fan_sys_munmap(base, ARENA_BYTES);
    return expected;
}

struct fan_slot *fan_arena_slot(uint32_t number)
{
    _Atomic(struct fan_slot *) *own = own_place();
    if (own == NULL)
        return NULL;
    struct fan_slot *base = atomic_load_explicit(own, memory_order_acquire);
    if (__builtin_expect(base == NULL, 0))
        base = make_own(own);
    return base != NULL && number < FAN_ARENA_SLOTS ? base + number : NULL;
}

int fan_arena_is_own(const struct fan_slot *slot)
{
    _Atomic(struct fan_slot *) *own = own_place();
    const struct fan_slot *base = own != NULL ? atomic_load(own) : NULL;
    return base != NULL && slot >= base && slot < base + FAN_ARENA_SLOTS;
}

int fan_arena_locate(const struct fan_slot *slot, uint32_t *number)
{
    for (unsigned i = 0; i < FAN_ARENAS_MAX; i++) {
        const struct fan_slot *base = atomic_load(&arenas[i].base);
        if (base != NULL && slot >= base && slot < base + FAN_ARENA_SLOTS) {
            *number = (uint32_t)(slot - base);
            int fd = fan_parked(&arenas[i].fd);
            return fd >= 0 ? fd : -ENOENT;
        }
    }
    return -ENOENT;
}

struct fan_slot *fan_arena_adopt(int fd)
{
    struct stat st;
    if (FAN_SYS(fstat, fd, &st) != 0 || (uint64_t)st.st_size != ARENA_BYTES)
        return NULL;
    struct fan_slot *base = map_arena(fd);
    if (base != NULL)
        enter(base, fd);
    return base;
}

void fan_arena_after_fork_child(void)
{
    _Atomic(struct fan_slot *) *own = atomic_load(&own_page);
    if (own != NULL) /* where the kernel did not */
        atomic_store(own, NULL);
}
