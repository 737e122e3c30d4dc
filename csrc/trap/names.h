/*
 * Makes names in a prefix that FanStore made, for paths that the kernel itself must follow: real
 * directories and links for chdir(2) and for paths that lead out of a mount, and links to copies of
 * programs that are started. The supervisor removes the links; if it cannot, they are removed with
 * the prefix (fanstore/node/prefix.py recognises them by their targets and their spelling).
 */
#pragma once

/* Makes the names that the kernel needs to enter the directory `path` of a mount. Returns 0, or
 * -EOPNOTSUPP if no names may be made there. */
int fan_names_lead(const char *path);

/* Makes a link to `copy` at the path of the program `path` of a mount. Returns 0 or -errno. */
int fan_names_program(const char *path, const char *copy);

/* Removes the links. */
void fan_names_end(void);
