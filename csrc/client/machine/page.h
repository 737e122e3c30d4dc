/* The size of a page of memory: 4 KiB on x86_64, and what the kernel was built with on aarch64. */
#ifndef FAN_CLIENT_PAGE_H
#define FAN_CLIENT_PAGE_H

#include <stddef.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { FAN_PAGE_MAX_BYTES = 4096 };
#else
enum { FAN_PAGE_MAX_BYTES = 65536 };
#endif

/* Makes no system call, because libc stores the size; safe in signal handlers. */
static inline size_t fan_page_bytes(void)
{
    return FAN_PAGE_MAX_BYTES == 4096 ? 4096 : (size_t)sysconf(_SC_PAGESIZE);
}

#endif
