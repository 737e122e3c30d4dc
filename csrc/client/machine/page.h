/* Returns the size of a page of memory, and allocates pages that the kernel zeroes in a fork child.
 * A page has 4 KiB on x86_64; on aarch64 the kernel's build decides. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "../../common/sys.h"

#if defined(__x86_64__)
enum { FAN_PAGE_MAX_BYTES = 4096 };
#else
enum { FAN_PAGE_MAX_BYTES = 65536 };
#endif

/* Returns the size. Makes no system call, because libc stores the size; safe in signal handlers. */
static inline size_t fan_page_bytes(void)
{
    return FAN_PAGE_MAX_BYTES == 4096 ? 4096 : (size_t)sysconf(_SC_PAGESIZE);
}

/* Returns `bytes`, rounded up to whole pages. */
static inline uint64_t fan_page_up(uint64_t bytes)
{
    uint64_t page = fan_page_bytes();
    return (bytes + page - 1) / page * page;
}

enum { FAN_OWN_PAGE_BYTES = 4096 };

/* Returns the memory at `place` (fan_sys_publish), and allocates it if there is none. The kernel
 * zeroes this memory in a fork child, however the child was made. Returns NULL if there is no
 * memory. */
static inline void *fan_own_page(void *place)
{
    void *page = __atomic_load_n((void **)place, __ATOMIC_ACQUIRE);
    if (__builtin_expect(page != NULL, 1))
        return page;
    page = fan_sys_memory(FAN_OWN_PAGE_BYTES);
    if (page != NULL)
        FAN_SYS(madvise, page, FAN_OWN_PAGE_BYTES, MADV_WIPEONFORK);
    return fan_sys_publish(place, page, FAN_OWN_PAGE_BYTES);
}
