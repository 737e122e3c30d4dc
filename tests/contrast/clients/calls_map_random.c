/* Mappings by chance: lengths that end within a page, offsets before and behind the end, and what
 * mremap makes of them. Every byte to the end of every page is compared. */
#include "calls.h"

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096, LIVE = 6, BEYOND = -1 };

static const char *const FILES[] = {"small", "page.bin", "page1.bin", "mid.bin", "lines", "big.bin", "sparse.bin"};

static uint64_t state;

static unsigned below(unsigned limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned) (state >> 33) % limit;
}

static sigjmp_buf escape;

static void on_fault(int number)
{
    siglongjmp(escape, number);
}

/* A word of a page's bytes; BEYOND where it raises SIGBUS, less for another signal. */
static long page_sum(const volatile char *at)
{
    unsigned long all = 5381;
    int got = sigsetjmp(escape, 1);
    for (int i = 0; got == 0 && i < PAGE; i++) {
        all = all * 33 + (unsigned char) at[i];
    }
    return got == 0 ? (long) (all >> 1) : got == SIGBUS ? BEYOND : -got;
}

static unsigned long sum_of_pages(const char *at, size_t pages)
{
    unsigned long all = 0;
    for (size_t i = 0; i < pages; i++) {
        all = all * 31 + (unsigned long) page_sum(at + i * PAGE);
    }
    return all;
}

static size_t pages_of(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE;
}

/* inside: it ends where its file does, or before. */
struct map {
    char *at;
    size_t pages;
    int shared, inside;
};

/* Maps a part of a file: from a page up to some behind its end, for any number of bytes. */
static struct map map_some(const char *name)
{
    int fd = reader(name);
    struct stat status;
    OK(fstat(fd, &status) == 0);
    size_t file_pages = pages_of((size_t) status.st_size);
    struct map map = {.shared = (int) below(2)};
    off_t offset = (off_t) below((unsigned) (below(3) == 0 ? file_pages + 3 : file_pages > 9 ? 9 : file_pages)) * PAGE;
    size_t bytes = 1 + below(below(2) == 0 ? 3 * PAGE : 40 * PAGE);
    int prot = map.shared ? PROT_READ : PROT_READ | PROT_WRITE;
    map.at = mmap(NULL, bytes, prot, map.shared ? MAP_SHARED : MAP_PRIVATE, fd, offset);
    OK(map.at != MAP_FAILED && close(fd) == 0);
    map.pages = pages_of(bytes);
    map.inside = (size_t)offset / PAGE + map.pages <= file_pages;
    SHOW("%s at %ld: %zu bytes, %lx", name, (long) offset, bytes, sum_of_pages(map.at, map.pages));
    return map;
}

static void write_some(struct map *map)
{
    char *at = map->at + below((unsigned) (map->pages * PAGE));
    if (!map->shared && sigsetjmp(escape, 1) == 0) {
        *at = (char) below(256);
    }
}

/* To fewer pages, and to a place where it does not lie yet. */
static void resize(struct map *map)
{
    size_t skip = below(4) == 0 ? below((unsigned) map->pages) : 0;
    size_t old = map->pages - skip, pages = 1 + below((unsigned)old);
    size_t old_bytes = old * PAGE - below(PAGE), bytes = pages * PAGE - below(PAGE);
    char *from = map->at + skip * PAGE, *to = NULL;
    int flags = MREMAP_MAYMOVE;
    if (map->inside && below(2) == 0) {
        flags |= MREMAP_FIXED;
        to = mmap(NULL, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        OK(to != MAP_FAILED);
    }
    char *at = below(3) > 0 ? mremap(from, old_bytes, bytes, flags, to)
                            : (char *) syscall(SYS_mremap, from, old_bytes, bytes, flags, to);
    OK(at != MAP_FAILED && (to == NULL || at == to));
    if (skip > 0) {
        OK(munmap(map->at, skip * PAGE) == 0);
    }
    map->at = at;
    map->pages = pages;
    SHOW("%zu to %zu bytes: %lx", old_bytes, bytes, sum_of_pages(at, pages));
}

static void step(struct map *map)
{
    if (map->at == NULL) {
        *map = map_some(FILES[below(7)]);
        return;
    }
    switch (below(8)) {
    case 0:
        OK(munmap(map->at, map->pages * PAGE) == 0);
        map->at = NULL;
        return;
    case 1:
        write_some(map);
        return;
    case 2:
        OK(madvise(map->at, map->pages * PAGE, MADV_DONTNEED) == 0);
        break;
    default:
        resize(map);
    }
}

static void take_steps(uint64_t seed, int count)
{
    struct map maps[LIVE] = {{NULL, 0, 0, 0}};
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    state = seed;
    for (int i = 0; i < count; i++) {
        step(&maps[below(LIVE)]);
    }
    for (int i = 0; i < LIVE; i++) {
        SHOW("at the end %lx", maps[i].at != NULL ? sum_of_pages(maps[i].at, maps[i].pages) : 0);
    }
}

CASE(lengths_and_offsets)
{
    const char *rounds = getenv("MAPS");
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigaction(SIGBUS, &action, NULL);
    state = 11;
    for (int i = 0; i < (rounds != NULL ? atoi(rounds) : 150); i++) {
        struct map map = map_some(FILES[i % 7]);
        OK(munmap(map.at, map.pages * PAGE) == 0);
    }
}

CASE(the_rest_of_the_page_is_the_file)
{
    for (int i = 1; i < 4; i++) {
        int fd = reader(FILES[i]);
        char *at = mmap(NULL, 100, PROT_READ, MAP_SHARED, fd, 0), *whole = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
        SHOW("%s %d %lx", FILES[i], memcmp(at, whole, PAGE), sum(at, PAGE));
        at = mremap(at, 100, PAGE, MREMAP_MAYMOVE);
        SHOW("%d %lx", memcmp(at, whole, PAGE), sum(at, PAGE));
    }
}

CASE(steps)
{
    const char *seed = getenv("MAPS_SEED");
    take_steps(seed != NULL ? (uint64_t) atoi(seed) : 1, seed != NULL ? 2000 : 300);
}

CASE(other_steps)
{
    take_steps(2, 300);
}
