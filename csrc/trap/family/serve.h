/* Threads that take caught calls and answer them. */
#ifndef FAN_TRAP_SERVE_H
#define FAN_TRAP_SERVE_H

/* Starts answering what comes from `listener`. 0 or -errno. It ends with the process. */
int fan_serve(int listener);

#endif
