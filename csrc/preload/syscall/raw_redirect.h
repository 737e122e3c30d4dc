/* Redirects the system calls of loaded code (client/machine/raw_sites.h) to this library. */
#ifndef FAN_PRELOAD_RAW_REDIRECT_H
#define FAN_PRELOAD_RAW_REDIRECT_H

/* Redirects what can be in loaded, executable code, which no other thread may run yet. How many, or
 * -errno: the memory is not to be written, or there is none near by, and what is left stays. */
int fan_raw_redirect(unsigned char *begin, unsigned char *end);

#endif
