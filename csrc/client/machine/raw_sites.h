/*
 * Finds system calls that code makes with the instruction itself and not through libc, if they can
 * be redirected. Only reads bytes, and changes nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether this file can decode the processor's instructions. */
#if defined(__x86_64__)
#define FAN_RAW_CALLS 1
#else
#define FAN_RAW_CALLS 0
#endif

/* One call, from `mov $number, %eax` to the byte after `syscall`. The instructions between these
 * two may be copied to another address. */
struct fan_raw_site {
    const unsigned char *begin;
    const unsigned char *end;
};

enum { FAN_RAW_MOV_BYTES = 5, FAN_RAW_SYSCALL_BYTES = 2, FAN_RAW_SITE_BYTES = 48 };

/* Finds the next site from *at on whose call number is `wanted`, and moves *at behind the site.
 * Returns false if there is none before `end`. */
bool fan_raw_next(const unsigned char *begin, const unsigned char **at, const unsigned char *end,
                  bool (*wanted)(long number), struct fan_raw_site *site);
