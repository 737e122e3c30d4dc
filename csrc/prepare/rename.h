/* Giving a finished directory its name. */
#ifndef FAN_PREPARE_RENAME_H
#define FAN_PREPARE_RENAME_H

/* cffi: begin */
/* Renames `from` to `to`. With `exchange` the two change places, at once where the file system
 * can; otherwise `to` must not exist. 0 or -errno. */
int fan_rename(const char *from, const char *to, int exchange);
/* cffi: end */

#endif
