/* Redirects the system calls of loaded code (client/machine/raw_sites.h) to this library. */
#ifndef FAN_PRELOAD_RAW_REDIRECT_H
#define FAN_PRELOAD_RAW_REDIRECT_H

/* Redirects the calls in loaded, executable code that can be redirected; no other thread may run
 * the code yet. Returns how many, or -errno: the memory cannot be written, or there is no free
 * memory near by; the remaining calls stay as they are. */
int fan_raw_redirect(unsigned char *begin, unsigned char *end);

#endif
