/* Before the program installs a seccomp filter (../machine/limits.h). */
#ifndef FAN_CLIENT_RESTRICT_H
#define FAN_CLIENT_RESTRICT_H

/* Does now what first uses of the mounts would do later, with calls that a filter may not allow. */
void fan_restrict(void);

#endif
