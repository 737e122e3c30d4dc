/*
 * Outputs: the files that programs write under a mount. Those of this rank are ordinary files in
 * its tree (paths/output_tree.h); about the others the client asks the node daemon
 * (format/output_format.h). Each question is one connection: no state is shared between threads, a
 * fork child needs nothing, and signal handlers may ask.
 *
 * Unless their comments say otherwise, the functions return 0, a descriptor or -errno. They return
 * -EIO if the daemon does not answer.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "../files/filetable.h"
#include "../job/ask.h"
#include "../paths/resolve.h"

/* Asks the daemon about a FAN_BEYOND or FAN_OUTPUT target; puts the target's view and path into
 * `call`. text: as for fan_output_ask. Returns 0 and fills `answer`, or -errno. If a link or ".."
 * led out of the outputs, the answer is ELSEWHERE and the target has been resolved again
 * (fan_locate_again with `flags`): the caller looks at the target again. */
int fan_output_ask_of(struct fan_target *target, struct fan_output_call *call, unsigned flags,
                      struct fan_output_answer *answer, char text[FAN_OUTPUT_PATH_MAX]);

/* Does open(2) of a FAN_BEYOND target. mode: before the umask. Returns a descriptor, -errno, or
 * FAN_OPEN_ELSEWHERE: the target was resolved again. */
enum { FAN_OPEN_ELSEWHERE = -0x10000 };
int fan_output_open(struct fan_target *target, int flags, unsigned mode);

/* Does open(2) of a target that is FAN_TREE. Returns a descriptor or -errno. */
int fan_tree_open(const struct fan_target *target, int flags, unsigned mode);

/* Notes a descriptor that the kernel opened without the library, or that another process gave, if
 * the descriptor is of the output tree. Returns whether it is. */
bool fan_tree_noticed(int fd);

/* Call it after the kernel opened `path` outside. Returns true if the path, under /proc, reopened a
 * descriptor of the output tree. */
bool fan_output_reopened(int fd, const char *path);

/* Counts one more open writable output. Its descriptor is in the table, or about to be. */
void fan_output_taken(void);

/* Call it when the last descriptor of a writable output in this process is about to close
 * (fan_file_put). */
void fan_output_let_go(const struct fan_file *file);

/* Gives up this process's responsibility for a writable output to the vfork child that opened it.
 */
void fan_output_disown(struct fan_file *file);

/* Call these around fork, exec and exit of a process with writable outputs; they cost nothing if it
 * has none. A vfork child notes only the outputs that the program it starts inherits: its parent
 * still has the outputs. */
void fan_output_after_fork_child(void);
void fan_output_before_exec(void);
void fan_output_after_failed_exec(void);
void fan_output_adopted(void); /* after exec, when the table has what was passed on */
void fan_output_at_exit(void);

/* Returns whether this process has outputs open for writing. */
bool fan_output_any(void);

/* Call it before running a program that the library cannot enter: no one will see what that program
 * writes. */
void fan_output_leave(void);

/* Sets st from an output's attributes. */
void fan_output_stat(const struct fan_view *view, const struct fan_output_attr *attr,
                     struct stat *st);

/* Does fstat(2) of an output's descriptor. Returns 0 or -errno. */
int fan_output_fstat(int fd, const struct fan_file *file, struct stat *st);
