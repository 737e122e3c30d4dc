/* Prepares for a seccomp filter that the program is about to install (../machine/limits.h). */
#ifndef FAN_CLIENT_RESTRICT_H
#define FAN_CLIENT_RESTRICT_H

/* Does now, before the filter, what the first use of the mounts would do later with system calls
 * that the filter may not allow. */
void fan_restrict(void);

#endif
