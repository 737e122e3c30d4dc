/* Gives a finished directory its final name. */
#ifndef FAN_PREPARE_RENAME_H
#define FAN_PREPARE_RENAME_H

/* cffi: begin */
/* Renames `from` to `to`. With `exchange` the two swap names, in one step if the file system can;
 * otherwise `to` must not exist. Returns 0 or -errno. */
int fan_rename(const char *from, const char *to, int exchange);
/* cffi: end */

#endif
