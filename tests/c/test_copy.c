/*
 * Copies of every way that fan_copy has: what they write and what they leave alone, and faults on
 * either side.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../csrc/client/machine/copy.h"
#include "../../csrc/client/machine/fault.h"
#include "check.h"

enum { PAGE = 4096, ROOM = 1 << 20, EDGE = 96, FILLER = 0xa5 };

static const size_t sizes[] = {
    1,     2,     15,    16,    17,    31,     63,     64,     65,     127,    2047,   2048,
    2049,  4095,  4096,  4097,  6000,  16383,  16384,  16385,  16415,  16416,  20000,  32768,
    65536, 70001, 131072, 200000, 393215, 393216, 393217, 393247, 393248, 400000, 524288, 700001};
static const size_t shifts[] = {0, 1, 15, 16, 31, 32, 33, 63, 64};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), SHIFTS = sizeof(shifts) / sizeof(shifts[0]) };

static uint8_t *source, *target;

static uint8_t *map_room(void)
{
    void *at = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void check_copy(size_t bytes, size_t from, size_t to)
{
    uint8_t *begin = target + PAGE + to, *end = begin + bytes;
    memset(begin - EDGE, FILLER, bytes + 2 * EDGE);
    CHECK(fan_copy(begin, source + from, bytes) == 0);
    CHECK(memcmp(begin, source + from, bytes) == 0);
    for (int i = 0; i < EDGE; i++)
        CHECK(begin[-1 - i] == FILLER && end[i] == FILLER);
}

static void check_copies(void)
{
    for (int i = 0; i < SIZES; i++)
        for (int j = 0; j < SHIFTS; j++)
            for (int k = 0; k < SHIFTS; k += 2)
                check_copy(sizes[i], shifts[k] + 1, shifts[j]);
}

/* Of memory whose page number `page` is not there: no copy that needs it succeeds. */
static void check_hole(size_t page, size_t shift)
{
    CHECK(mprotect(target + page * PAGE, PAGE, PROT_NONE) == 0);
    for (int i = 0; i < SIZES; i++) {
        bool over = shift + sizes[i] > page * PAGE;
        int expected = over ? -EFAULT : 0;
        CHECK(fan_copy(target + shift, source, sizes[i]) == expected);
        CHECK(fan_copy(source, target + shift, sizes[i]) == expected);
        CHECK(fan_touch(target + shift, sizes[i]) == expected);
        CHECK(fan_blot(target + shift, sizes[i]) == expected);
    }
    CHECK(mprotect(target + page * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
}

static void check_holes(void)
{
    static const size_t pages[] = {0, 1, 3, 4, 7, 95, 96, 97, 120};
    for (unsigned i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        check_hole(pages[i], 0);
        check_hole(pages[i], 16);
    }
}

/* Of a file that became shorter than its mapping. */
static void check_lost_file(void)
{
    int fd = memfd_create("lost", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, ROOM) == 0);
    void *at = mmap(NULL, ROOM, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED && ftruncate(fd, 50 * PAGE) == 0);
    CHECK(fan_copy(target, at, 50 * PAGE) == 0);
    CHECK(fan_touch(at, 50 * PAGE) == 0);
    CHECK(fan_copy(target, at, 51 * PAGE) == -EIO);
    CHECK(fan_copy(target, at, 100 * PAGE) == -EIO);
    CHECK(fan_touch(at, 50 * PAGE + 1) == -EIO);
    CHECK(munmap(at, ROOM) == 0 && close(fd) == 0);
}

/* A zero on the first byte of each page's length and on the last, on no other. */
static void check_blot(void)
{
    size_t bytes = 3 * PAGE + 100;
    memset(target, FILLER, 5 * PAGE);
    CHECK(fan_blot(target + 8, bytes) == 0);
    for (size_t i = 0; i < 5 * PAGE; i++) {
        bool hit = i >= 8 && i < 8 + bytes && ((i - 8) % PAGE == 0 || i == 8 + bytes - 1);
        CHECK(target[i] == (hit ? 0 : FILLER));
    }
}

static void check_all(void)
{
    check_copies();
    check_holes();
    check_lost_file();
    check_blot();
}

int main(void)
{
    source = map_room();
    target = map_room();
    for (size_t i = 0; i < ROOM; i++)
        source[i] = (uint8_t)(i * 2654435761u >> 13);
    fan_fault_init();
    check_all();
#if defined(__x86_64__)
    extern bool fan_copy_has_avx2;
    fan_copy_has_avx2 = false;
    check_all();
#endif
    puts("test_copy: no fault");
    return 0;
}
