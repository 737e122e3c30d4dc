/* Redirects the system calls of loaded code (client/machine/raw_sites.h) to this library. */
#ifndef FAN_PRELOAD_RAW_REDIRECT_H
#define FAN_PRELOAD_RAW_REDIRECT_H

/* Redirects the calls in loaded, executable code that can be redirected. No other thread may run
 * the code yet. Returns how many it redirected, or -errno if the memory cannot be written, or no
 * free memory is near enough; the other calls stay as they are. */
int fan_raw_redirect(unsigned char *begin, unsigned char *end);

#endif
