/*
 * Moves a file's open file description to the kernel: copies the content to a real file, whose own
 * description takes the offset over. moved.h uses such files from then on.
 *
 * Nothing allocates or locks; safe in vfork children.
 */
#ifndef FAN_CLIENT_MOVE_H
#define FAN_CLIENT_MOVE_H

struct fan_file;

/* Makes a real copy of an open regular file, at its offset. Only for a file that no other process
 * shares. Returns a descriptor, close-on-exec, or -errno. */
int fan_move_alone(struct fan_file *file);

/* Returns the real description of a regular file, and makes it if there is none: a descriptor,
 * close-on-exec, which the caller closes; or -errno: -EFBIG, or -EMFILE if it cannot be passed on
 * to the processes that share the file. */
int fan_move_make(struct fan_file *file);

#endif
