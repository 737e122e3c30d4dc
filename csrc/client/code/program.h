/*
 * Whether the preload library comes into a program: only the dynamic linker of glibc loads it, and
 * not for programs that gain privileges.
 */
#ifndef FAN_CLIENT_PROGRAM_H
#define FAN_CLIENT_PROGRAM_H

#include <stdbool.h>

/* Whether exec of `path` (outside the mounts) would start a program that the library cannot enter.
 * false too where exec would fail. A script is as its interpreter is. Safe in a vfork child. */
bool fan_program_shuts_out(int dirfd, const char *path);

/* The same of an open program; a script is none. */
bool fan_program_shuts_out_fd(int fd);

/* The interpreter of a script whose head this is, terminated, split there: its one argument (NULL:
 * none) in `argument`. NULL when it names none. */
char *fan_script_parse(char *head, char **argument);

/* As the kernel has it: how much of a script is looked at, how many interpreters in a row. */
enum { FAN_SCRIPT_HEAD_BYTES = 256, FAN_SCRIPTS_MAX = 5 };

#endif
