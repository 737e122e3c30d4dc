/*
 * Which descriptor is ours, and which open file (file.h) it stands for. Nothing here locks.
 *
 * A vfork child runs in its parent's memory, with a descriptor table of its own: its changes are
 * kept in an overlay (overlay.h) and never in the parent's table.
 */
#ifndef FAN_CLIENT_FILETABLE_H
#define FAN_CLIENT_FILETABLE_H

#include "file.h"
#include "overlay.h"

/* Descriptor to file, in chunks made as they are needed. */
enum { FAN_TABLE_CHUNK = 1024, FAN_TABLE_CHUNKS = 1024 };
typedef _Atomic(struct fan_file *) fan_table_entry;
extern _Atomic(fan_table_entry *) fan_table[FAN_TABLE_CHUNKS];

/* fan_file_get of a thread that may be a vfork child. */
struct fan_file *fan_file_get_overlaid(int fd);

static inline struct fan_file *fan_table_get(int fd)
{
    unsigned number = (unsigned)fd;
    if (number >= FAN_TABLE_CHUNK * FAN_TABLE_CHUNKS)
        return NULL;
    fan_table_entry *chunk =
        atomic_load_explicit(&fan_table[number / FAN_TABLE_CHUNK], memory_order_acquire);
    return chunk != NULL ? atomic_load_explicit(&chunk[number % FAN_TABLE_CHUNK],
                                                memory_order_acquire)
                         : NULL;
}

/* The file behind a descriptor, or NULL when it is not ours. Any int is allowed. Inline: every call
 * that takes a descriptor passes here. */
static inline struct fan_file *fan_file_get(int fd)
{
    return __builtin_expect(fan_vfork_thread, 0) ? fan_file_get_overlaid(fd) : fan_table_get(fd);
}

/* Gives `file` (a reference the caller holds) to `fd`. 0, or -ENOMEM and the reference dropped. */
int fan_file_install(int fd, struct fan_file *file);

/* The same of a descriptor that was opened for `file`. `fd`, or -errno and `fd` closed: -ENFILE for
 * a file of NULL. */
int fan_file_give(int fd, struct fan_file *file);

/* Makes `fd` one more descriptor of `file` (dup). 0 or -ENOMEM. */
int fan_file_share(int fd, struct fan_file *file);

/* Takes the file from `fd`, which is ours. */
void fan_file_remove_ours(int fd);

/* Takes the file from `fd`; the descriptor itself is the caller's to close. Does nothing when
 * it is not ours. */
static inline void fan_file_remove(int fd)
{
    if (__builtin_expect(fan_file_get(fd) != NULL, 0))
        fan_file_remove_ours(fd);
}

/* Forgets all in [first, last]. */
void fan_file_remove_range(unsigned first, unsigned last);

/* A placeholder descriptor: the lowest free number from `minimum`, with FD_CLOEXEC as asked. The
 * kernel answers EBADF or ELOOP to whatever slips past the library. Or -errno. */
int fan_placeholder(int minimum, bool cloexec);

/* Makes the placeholder and the arena, which the first open would make otherwise. */
void fan_file_make_ready(void);

/* Before vfork: makes all that its child must not make, for the parent would miss the descriptors.
 */
void fan_file_before_vfork(void);

/* Around fork: the child's references are counted before it exists. */
void fan_file_before_fork(void);
void fan_file_after_failed_fork(void);
void fan_file_after_fork_child(void);

/* Calls `visit` for each descriptor of ours, a vfork child's own included. */
void fan_file_each(void (*visit)(int fd, struct fan_file *file, void *context), void *context);

#endif
