/*
 * Passes open files to other processes, takes them over from others, and attaches a process to its
 * job. Descriptors survive exec; FANSTORE_FDS tells the new program the file behind each, as
 * "<arena fd>:<store fd>,...;<fd>.<arena>.<slot>,...".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct fan_file;
struct fan_view;

#define FAN_HANDOFF_ENV "FANSTORE_FDS"

/* What the descriptors that exec keeps need. */
struct fan_handoff_need {
    size_t bytes;      /* room for the text of fan_handoff_export; 0: no descriptor is kept */
    bool placeholders; /* whether some descriptors are placeholders */
};

/* The limit for one string of an environment. */
enum { FAN_HANDOFF_BYTES_MAX = 1 << 17 };

void fan_handoff_measure(struct fan_handoff_need *need);

/* Call it before a program starts that the library cannot enter. Turns the placeholders that the
 * program would inherit into real files with the same numbers, content and offset. If that fails
 * for one, it stays a placeholder. This process sees the change only in /proc. */
void fan_handoff_make_real(void);

/* Describes the descriptors that exec keeps, and lets their arenas survive exec. Returns the length
 * without the NUL (0: there are none), or -E2BIG. counted: this process continues (posix_spawn, a
 * vfork child), so the new program's references are counted in addition to its own. Safe in a vfork
 * child. */
ssize_t fan_handoff_export(char *text, size_t capacity, bool counted);

/* Undoes fan_handoff_export after an exec that failed. */
void fan_handoff_cancel(bool counted);

/* Call it after a posix_spawn that succeeded: makes the arenas close-on-exec again. */
void fan_handoff_done(void);

/* Takes over the files that the program before exec described. Does nothing if the text is stale or
 * wrong. */
void fan_handoff_adopt(const char *text);

/* The next functions move a file's open file description to the kernel: they copy the content to a
 * real file, whose own description takes the offset over (../files/moved.h). None takes a lock or
 * allocates; safe in vfork children. */

/* Makes a real copy of an open regular file, at its offset. Only for a file that no other process
 * shares. Returns a descriptor, close-on-exec, or -errno. */
int fan_move_alone(struct fan_file *file);

/* Returns the real description of a regular file, and makes it if there is none: a descriptor,
 * close-on-exec, which the caller closes; or -errno: -EFBIG, or -EMFILE if it cannot be passed on
 * to the processes that share the file. */
int fan_move_make(struct fan_file *file);

/* Checks a descriptor that came in a message, or that this process inherited through a program
 * without the library. Forgets any file that the table has under this number. If the descriptor is
 * a copy of an input of this job, an output, or a directory of a mount, enters it in the table as
 * such. */
void fan_received(int fd);

/* st: the attributes of `fd`, which is not in the table. If it is a file without a name and a copy
 * of an input, enters it there and returns true. Leaves errno alone. */
bool fan_received_late(int fd, const struct stat *st);

/* Returns whether a descriptor is a real copy of record `id` of the view. */
bool fan_is_copy_of(int fd, const struct fan_view *view, uint64_t id);

/* Attaches this process to a job, like fan_job_attach, and sets the file table's hooks. */
int fan_process_attach(const char *directory, const char *library);

/* Call it in a fork child before any other function of the client. Forgets state that belongs only
 * to the parent, and records that this process, too, has the parent's outputs open. */
void fan_process_after_fork_child(void);

/* Makes libc call fan_file_before_fork and fan_process_after_fork_child at each fork. Further calls
 * do nothing. Allocates. */
void fan_process_watch_forks(void);
