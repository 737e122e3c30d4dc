#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../../common/sys.h"
#include "../machine/copy.h"
#include "../machine/fault.h"
#include "../machine/limits.h"
#include "../machine/page.h"
#include "../machine/park.h"
#include "file.h"
#include "store.h"

#define ARENA_BYTES ((uint64_t)FAN_ARENA_SLOTS * sizeof(struct fan_slot))

struct arena {
    _Atomic(struct fan_slot *) base;
    atomic_int fd;    /* holder of its descriptor; empty: an anonymous arena, which ends at exec */
    atomic_int store; /* holder of its store; empty: none yet */
};

static struct arena arenas[FAN_ARENAS_MAX];

enum { PAGE = 4096, PAGES = ARENA_BYTES / PAGE };

/* This process's own arena. touched: one bit for each page of slots for which memory was allocated.
 */
struct own {
    _Atomic(struct fan_slot *) base;
    _Atomic uint64_t touched[PAGES / 64];
};
_Static_assert(sizeof(struct own) <= FAN_OWN_PAGE_BYTES, "it lies on one page");

/* This process's arenas. The struct lies on a page of its own (fan_own_page), so that a fork child
 * starts without it and makes its own arena at its first open. */
static _Atomic(struct own *) own_page;

static int make_memory_file(void)
{
    if (!fan_file_limit_allows(ARENA_BYTES)) /* a larger file would raise SIGXFSZ */
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

static void park_or_not(int fd, atomic_int *holder)
{
    if (fd >= 0)
        fan_park(fd, holder);
}

/* Enters a mapping in the table, and parks its descriptor and that of its store (-1: none). If the
 * table is full, the arena just does not survive exec. */
static void enter(struct fan_slot *base, int fd, int store)
{
    for (unsigned i = 0; i < FAN_ARENAS_MAX; i++) {
        struct fan_slot *expected = NULL;
        if (atomic_compare_exchange_strong(&arenas[i].base, &expected, base)) {
            park_or_not(fd, &arenas[i].fd);
            park_or_not(store, &arenas[i].store);
            return;
        }
    }
    if (fd >= 0)
        fan_sys_close(fd);
    if (store >= 0)
        fan_sys_close(store);
}

static struct fan_slot *make_own(struct own *own)
{
    int fd = make_memory_file();
    struct fan_slot *base = map_arena(fd), *expected = NULL;
    if (base != NULL && atomic_compare_exchange_strong(&own->base, &expected, base)) {
        enter(base, fd, -1);
        return base;
    }
    if (fd >= 0)
        fan_sys_close(fd);
    if (base != NULL)
        fan_sys_munmap(base, ARENA_BYTES);
    return expected;
}

/* Returns whether there is memory for a slot. Without it, as under strict accounting, the first
 * store to the slot's page would raise SIGBUS. */
static bool has_memory(struct own *own, const struct fan_slot *base, uint32_t number)
{
    uint32_t page = (uint32_t)(number * sizeof(struct fan_slot) / PAGE);
    _Atomic uint64_t *word = &own->touched[page / 64];
    const uint64_t bit = UINT64_C(1) << page % 64;
    if (__builtin_expect(atomic_load_explicit(word, memory_order_relaxed) & bit, 1))
        return true;
    fan_fault_init();
    if (fan_touch((const char *)base + (size_t)page * PAGE, 1) != 0)
        return false;
    atomic_fetch_or(word, bit);
    return true;
}

struct fan_slot *fan_arena_slot(uint32_t number)
{
    struct own *own = fan_own_page(&own_page);
    if (own == NULL)
        return NULL;
    struct fan_slot *base = atomic_load_explicit(&own->base, memory_order_acquire);
    if (__builtin_expect(base == NULL, 0))
        base = make_own(own);
    bool usable = base != NULL && number < FAN_ARENA_SLOTS && has_memory(own, base, number);
    return usable ? base + number : NULL;
}

int fan_arena_is_own(const struct fan_slot *slot)
{
    struct own *own = fan_own_page(&own_page);
    const struct fan_slot *base = own != NULL ? atomic_load(&own->base) : NULL;
    return base != NULL && slot >= base && slot < base + FAN_ARENA_SLOTS;
}

static struct arena *arena_of(const struct fan_slot *slot)
{
    for (unsigned i = 0; i < FAN_ARENAS_MAX; i++) {
        const struct fan_slot *base = atomic_load(&arenas[i].base);
        if (base != NULL && slot >= base && slot < base + FAN_ARENA_SLOTS)
            return &arenas[i];
    }
    return NULL;
}

int fan_arena_locate(const struct fan_slot *slot, uint32_t *number)
{
    const struct arena *arena = arena_of(slot);
    if (arena == NULL)
        return -ENOENT;
    *number = (uint32_t)(slot - atomic_load(&arena->base));
    int fd = fan_parked(&arena->fd);
    return fd >= 0 ? fd : -ENOENT;
}

struct fan_slot *fan_arena_base(const struct fan_slot *slot)
{
    const struct arena *arena = arena_of(slot);
    return arena != NULL ? atomic_load(&arena->base) : NULL;
}

int fan_arena_store(const struct fan_slot *slot, bool make)
{
    struct arena *arena = arena_of(slot);
    int fd = arena != NULL ? fan_parked(&arena->store) : -1;
    if (fd >= 0 || !make || arena == NULL)
        return fd >= 0 ? fd : -ENOENT;
    fd = fan_store_new();
    return fd >= 0 ? fan_park(fd, &arena->store) : fd;
}

struct fan_slot *fan_arena_adopt(int fd, int store)
{
    struct stat st;
    if (FAN_SYS(fstat, fd, &st) != 0 || (uint64_t)st.st_size != ARENA_BYTES)
        return NULL;
    struct fan_slot *base = map_arena(fd);
    bool is_socket = store >= 0 && FAN_SYS(fstat, store, &st) == 0 && S_ISSOCK(st.st_mode);
    if (base != NULL)
        enter(base, fd, is_socket ? store : -1);
    return base;
}

void fan_arena_after_fork_child(void)
{
    struct own *own = atomic_load(&own_page);
    if (own == NULL)
        return;
    atomic_store(&own->base, NULL); /* if the kernel did not zero the page */
    for (unsigned i = 0; i < PAGES / 64; i++)
        atomic_store_explicit(&own->touched[i], 0, memory_order_relaxed);
}
