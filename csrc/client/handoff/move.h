/*
 * Moving a file's open file description to the kernel: its content becomes that of a real file,
 * whose description takes the offset over (moved.h says how it is used from then on).
 *
 * Nothing allocates or locks; safe in vfork children.
 */
#ifndef FAN_CLIENT_MOVE_H
#define FAN_CLIENT_MOVE_H

struct fan_file;

/* Makes a real file of an open regular file, at its offset. Only for one that no other process
 * shares. Returns a descriptor, closed on exec, or -errno. */
int fan_move_alone(struct fan_file *file);

/* The real description of a regular file, made now if there is none. A descriptor, closed on exec,
 * for the caller to close; or -errno: -EFBIG, -EMFILE where sharers could not be told. */
int fan_move_make(struct fan_file *file);

#endif
