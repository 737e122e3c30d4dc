/*
 * Names in a prefix that FanStore made, where the kernel itself has to find its way: real
 * directories and links for chdir(2) and on the way out of a mount, links to copies for programs
 * that are started. The links go with the supervisor, or else when the prefix does
 * (fanstore/node/prefix.py knows them by where they lead, and by their spelling).
 */
#ifndef FAN_TRAP_NAMES_H
#define FAN_TRAP_NAMES_H

/* Makes the kernel able to enter the directory `path` of a mount, as far as links and the like go.
 * 0; -EOPNOTSUPP where nothing may be made. */
int fan_names_lead(const char *path);

/* Puts a link to `copy` where the program `path` of a mount lies. 0 or -errno. */
int fan_names_program(const char *path, const char *copy);

/* Removes the links. */
void fan_names_end(void);

#endif
