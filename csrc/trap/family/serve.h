/* The threads that receive caught calls and answer them. */
#ifndef FAN_TRAP_SERVE_H
#define FAN_TRAP_SERVE_H

/* Starts to answer the calls from `listener`. Returns 0 or -errno. It ends with the process. */
int fan_serve(int listener);

#endif
