/*
 * Maps our descriptors to the open files (file.h) for which they stand. No function takes a lock.
 *
 * A vfork child runs in its parent's memory, but has a descriptor table of its own. So its changes
 * are kept in an overlay (overlay.h) and not in the parent's table.
 */
#pragma once

#include "../../common/sys.h"
#include "file.h"
#include "overlay.h"

/* A chunk of the table; chunks are allocated when needed. */
enum { FAN_TABLE_CHUNK = 1024, FAN_TABLE_CHUNKS = 1024 };
typedef _Atomic(struct fan_file *) fan_table_entry;
extern _Atomic(fan_table_entry *) fan_table[FAN_TABLE_CHUNKS];

/* Is fan_file_get for a thread that may be a vfork child's. */
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

/* Returns the file of a descriptor, or NULL if it is not ours. Any int is allowed. Inline, because
 * every call with a descriptor comes through here. */
static inline struct fan_file *fan_file_get(int fd)
{
    return __builtin_expect(fan_vfork_thread, 0) ? fan_file_get_overlaid(fd) : fan_table_get(fd);
}

/* Makes `fd` stand for `file`, and takes over the caller's reference. Returns 0, or -ENOMEM and
 * drops the reference. */
int fan_file_install(int fd, struct fan_file *file);

/* Like fan_file_install, for a descriptor that was opened for `file`. Returns `fd`; on failure
 * closes `fd` and returns -errno, -ENFILE if `file` is NULL. */
int fan_file_give(int fd, struct fan_file *file);

/* Makes `fd` one more descriptor of `file`, as dup does. Returns 0 or -ENOMEM. */
int fan_file_share(int fd, struct fan_file *file);

/* Is fan_file_remove for a descriptor that is known to be ours. */
void fan_file_remove_ours(int fd);

/* Removes `fd` from the table; the caller closes the descriptor itself. Does nothing if `fd` is not
 * ours. */
static inline void fan_file_remove(int fd)
{
    if (__builtin_expect(fan_file_get(fd) != NULL, 0))
        fan_file_remove_ours(fd);
}

/* Closes a descriptor, which may be of a file of the library. Returns 0 or -errno. */
static inline int fan_file_close(int fd)
{
    fan_file_remove(fd);
    return fan_sys_close(fd);
}

/* Removes all descriptors in [first, last]. */
void fan_file_remove_range(unsigned first, unsigned last);

/* Makes a placeholder descriptor at the lowest free number from `minimum` on; cloexec sets
 * FD_CLOEXEC. The kernel answers EBADF or ELOOP to calls on it that bypass the library. Returns the
 * descriptor or -errno. */
int fan_placeholder(int minimum, bool cloexec);

/* Makes the placeholder and the arena now; otherwise the first open makes them. */
void fan_file_make_ready(void);

/* Call it before vfork. Makes everything that the child must not make itself, because the parent
 * would lack the descriptors. */
void fan_file_before_vfork(void);

/* Call these around fork. They count the child's references before the child exists. */
void fan_file_before_fork(void);
void fan_file_after_failed_fork(void);
void fan_file_after_fork_child(void);

/* Calls `visit` for each of our descriptors, including a vfork child's own. */
void fan_file_each(void (*visit)(int fd, struct fan_file *file, void *context), void *context);
