/*
 * Outputs: what programs write under a mount. What this rank has are ordinary files of its tree
 * (paths/output_tree.h); about the rest the node daemon is asked (format/output_format.h). Each
 * question is one connection: no state is shared between threads, a fork child needs nothing, and
 * signal handlers may ask.
 *
 * Everything here returns 0, a descriptor or -errno; -EIO when there is no daemon to ask.
 */
#ifndef FAN_CLIENT_OUTPUTS_H
#define FAN_CLIENT_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "../files/filetable.h"
#include "../job/ask.h"
#include "../paths/resolve.h"

/* Asks about a target that is FAN_BEYOND or FAN_OUTPUT, whose view and path are put into `call`.
 * text: as for fan_output_ask. Returns 0 with `answer`, or -errno. Where a link or ".." led out of
 * the outputs, the answer is ELSEWHERE and the target is resolved anew (fan_locate_again with
 * `flags`): the caller decides once more. */
int fan_output_ask_of(struct fan_target *target, struct fan_output_call *call, unsigned flags,
                      struct fan_output_answer *answer, char text[FAN_OUTPUT_PATH_MAX]);

/* open(2) of a target that is FAN_BEYOND. `mode` before the umask. A descriptor, -errno, or
 * FAN_OPEN_ELSEWHERE: the target was resolved anew. */
enum { FAN_OPEN_ELSEWHERE = -0x10000 };
int fan_output_open(struct fan_target *target, int flags, unsigned mode);

/* open(2) of a target that is FAN_TREE. A descriptor or -errno. */
int fan_tree_open(const struct fan_target *target, int flags, unsigned mode);

/* A descriptor that the kernel opened past us, or another process gave: notes it where it is one of
 * the output tree. */
bool fan_tree_noticed(int fd);

/* After the kernel opened `path` outside: one under /proc may be a descriptor of the output tree:
 * true. */
bool fan_output_reopened(int fd, const char *path);

/* One more writable output is open: its descriptor is in the table, or about to be. */
void fan_output_taken(void);

/* The last descriptor of a writable output in this process is about to go (fan_file_put). */
void fan_output_let_go(const struct fan_file *file);

/* This process no longer answers for a writable output: the vfork child that opened it does. */
void fan_output_disown(struct fan_file *file);

/* Around the life of a process that has writable outputs; free when it has none. A vfork child
 * notes only what the program that it starts is given: its parent has the outputs still. */
void fan_output_after_fork_child(void);
void fan_output_before_exec(void);
void fan_output_after_failed_exec(void);
void fan_output_adopted(void); /* after exec: what was handed on is in the table */
void fan_output_at_exit(void);

/* Whether this process has outputs open for writing. */
bool fan_output_any(void);

/* A program is about to run that the library cannot enter: nobody will know what it writes. */
void fan_output_leave(void);

/* Sets st from an output's attributes. */
void fan_output_stat(const struct fan_view *view, const struct fan_output_attr *attr,
                     struct stat *st);

/* fstat(2) of a descriptor of an output's. 0 or -errno. */
int fan_output_fstat(int fd, const struct fan_file *file, struct stat *st);

#endif
