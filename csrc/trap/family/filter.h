/* The seccomp filter that decides which calls are caught. */
#ifndef FAN_TRAP_FILTER_H
#define FAN_TRAP_FILTER_H

/* Installs the filter for this process and all that it starts. Returns the listener's descriptor,
 * or -errno: -EBUSY: there is another listener already; -EINVAL: the kernel has no such listeners.
 */
int fan_filter_install(void);

#endif
