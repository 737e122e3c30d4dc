#include "raw.h"

#include "../../client/machine/raw_sites.h"

#if FAN_RAW_CALLS
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "../../common/sys.h"
#    include "syscall.h"

#    ifndef MAP_FIXED_NOREPLACE
#        define MAP_FIXED_NOREPLACE 0x100000
#    endif

enum { PAGE = 4096, DETOUR_BYTES = 96, AT_ONCE = PAGE / DETOUR_BYTES, JUMP = 0xe9 };

/* The reach of a jump with a 32-bit offset, with a margin. */
static const int64_t reach = INT32_MAX - (1 << 20);

static bool is_near(const unsigned char *a, const unsigned char *begin, const unsigned char *end)
{
    return a - begin < reach && begin - a < reach && a - end < reach && end - a < reach;
}

static unsigned char *map_page(uintptr_t at)
{
    long got = fan_sys_mmap((void *)at, PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (fan_sys_failed(got))
        return NULL;
    if ((uintptr_t)got == at)
        return (unsigned char *)got;
    fan_sys_munmap((void *)got, PAGE); /* the kernel only took the address as a hint */
    return NULL;
}

/* Returns a page within reach of the code: below it, where the kernel puts new mappings, or above
 * it. */
static unsigned char *find_page(const unsigned char *begin, const unsigned char *end)
{
    enum { TRIES = 2000 };
    const uintptr_t step = 1 << 20, low = (uintptr_t)begin & -(uintptr_t)PAGE;
    const uintptr_t high = ((uintptr_t)end + PAGE - 1) & -(uintptr_t)PAGE;
    for (uintptr_t i = 0; i < TRIES; i++) {
        uintptr_t below = low - PAGE - i * step, above = high + i * step;
        unsigned char *page =
            below < low && is_near((void *)below, begin, end) ? map_page(below) : NULL;
        if (page == NULL && is_near((void *)above, begin, end))
            page = map_page(above);
        if (page != NULL)
            return page;
    }
    return NULL;
}

static unsigned char *put(unsigned char *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return to + bytes;
}

/* Writes the instructions of a site; in place of the last one, a jump to fan_raw_enter with the way
 * back in rcx. */
static void write_detour(unsigned char *to, const struct fan_raw_site *site)
{
    static const unsigned char movabs_rcx[] = {0x48, 0xb9},
                               jump_indirect[] = {0xff, 0x25, 0, 0, 0, 0};
    void (*enter)(void) = fan_raw_enter;
    to = put(to, site->begin, (size_t)(site->end - site->begin) - FAN_RAW_SYSCALL_BYTES);
    to = put(to, movabs_rcx, sizeof(movabs_rcx));
    to = put(to, &site->end, sizeof(site->end));
    to = put(to, jump_indirect, sizeof(jump_indirect));
    put(to, &enter, sizeof(enter));
}

/* Replaces `mov $number, %eax` by a jump, which is as long, so that code that jumps behind it still
 * works. */
static int write_jump(const unsigned char *at, const unsigned char *detour)
{
    unsigned char jump[FAN_RAW_MOV_BYTES] = {JUMP};
    int32_t distance = (int32_t)(detour - (at + FAN_RAW_MOV_BYTES));
    uintptr_t page = (uintptr_t)at & -(uintptr_t)PAGE;
    size_t bytes = (uintptr_t)at + FAN_RAW_MOV_BYTES - page;
    int rc = (int)FAN_SYS(mprotect, page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC);
    if (rc != 0)
        return rc;
    memcpy(jump + 1, &distance, sizeof(distance));
    memcpy((void *)(uintptr_t)at, jump, sizeof(jump));
    return (int)FAN_SYS(mprotect, page, bytes, PROT_READ | PROT_EXEC);
}

static int redirect(const struct fan_raw_site *sites, unsigned count, unsigned char *page)
{
    for (unsigned i = 0; i < count; i++)
        write_detour(page + i * DETOUR_BYTES, &sites[i]);
    int rc = (int)FAN_SYS(mprotect, page, PAGE, PROT_READ | PROT_EXEC);
    for (unsigned i = 0; rc == 0 && i < count; i++)
        rc = write_jump(sites[i].begin, page + i * DETOUR_BYTES);
    return rc;
}

int fan_raw_redirect(unsigned char *begin, unsigned char *end)
{
    struct fan_raw_site sites[AT_ONCE];
    const unsigned char *at = begin;
    int total = 0, rc = 0;
    unsigned count;
    do {
        for (count = 0; count < AT_ONCE &&
                        fan_raw_next(begin, &at, end, fan_call_is_redirected, &sites[count]);)
            count++;
        if (count == 0)
            break;
        unsigned char *page = fan_raw_can_enter() ? find_page(begin, end) : NULL;
        rc = page != NULL ? redirect(sites, count, page) : -ENOMEM;
        total += (int)count;
    } while (rc == 0 && count == AT_ONCE);
    return rc == 0 ? total : rc;
}
#else
#include <errno.h>

int fan_raw_redirect(unsigned char *begin, unsigned char *end)
{
    (void)begin;
    (void)end;
    return 0;
}
#endif
