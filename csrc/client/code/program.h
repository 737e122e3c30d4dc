/*
 * Finds out whether the preload library can enter a program: only glibc's dynamic linker loads it,
 * and not into programs that gain privileges.
 */
#pragma once

#include <stdbool.h>

/* Returns whether exec of `path` (outside the mounts) would start a program that the library cannot
 * enter. Also false if exec would fail. For a script, checks its interpreter. Safe in a vfork
 * child. */
bool fan_program_shuts_out(int dirfd, const char *path);

/* Like fan_program_shuts_out, for an open program; returns false for a script. */
bool fan_program_shuts_out_fd(int fd);

/* Parses the head of a script, which is NUL-terminated, and splits it in place. Returns the
 * interpreter and sets `argument` to its one argument (NULL: none). NULL if the head names no
 * interpreter. */
char *fan_script_parse(char *head, char **argument);

/* Limits of the kernel: how many bytes of a script it reads, and how many interpreters may follow
 * each other. */
enum { FAN_SCRIPT_HEAD_BYTES = 256, FAN_SCRIPTS_MAX = 5 };
