/* The seccomp filter: which calls are caught. */
#ifndef FAN_TRAP_FILTER_H
#define FAN_TRAP_FILTER_H

/* Installs it for this process and all that it starts. The listener's descriptor, or -errno:
 * -EBUSY, there is another listener already; -EINVAL, the kernel has none of this. */
int fan_filter_install(void);

#endif
