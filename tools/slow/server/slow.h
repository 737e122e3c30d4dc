/*
 * The server of a slow file system: it speaks the kernel's FUSE protocol itself, shows a directory
 * of this machine, and holds each answer back as a network file system would. slow.py starts it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum { SECOND_NS = 1000000000 };

/* Memory, without which the process ends. */
static inline void *needed(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

/* calls.c */

extern struct timespec cache; /* how long the kernel may believe names and attributes */
extern bool is_direct;        /* each read comes as a program makes it; the kernel keeps nothing */

/* A thread that answers requests of the connection, an int, until the process ends. */
void *serve(void *connection);

/* nodes.c
 *
 * A node is a name in a directory, which has a path. The kernel knows it by its address until it
 * forgets it. A file has a node for each of its names. */

struct node;

struct node *node_of(uint64_t id);
uint64_t node_id(const struct node *node);

/* Held while paths are in use: no name changes below. */
void names_lock(void);
void names_unlock(void);

/* The path of a node, or of a name in it, from the working directory on, which is the one that is
 * shown; false: it is too long. */
bool path_of(const struct node *node, const char *name, char path[PATH_MAX]);
/* AT_SYMLINK_NOFOLLOW, or 0 for removed files, whose paths are links of /proc. */
int flags_of(const struct node *node);

/* Finds or makes the node of a name, which the kernel has once more now. */
struct node *node_find(struct node *parent, const char *name);
void node_forget(struct node *node, uint64_t times);

/* As unlink(2), rmdir(2) and rename(2), not under names_lock. A file that loses its name stays
 * until it is forgotten. They return 0 or -errno. */
int node_remove(struct node *parent, const char *name, bool directory);
int node_rename(struct node *from, const char *name, struct node *to, const char *new_name);

/* Whether the file has the size and time that it had at the last call. */
bool node_unchanged(struct node *node, const struct stat *now);

/* pace.c */

enum kind { LOOKUP, STAT, READLINK, OPEN, READ, READDIR, WRITE, CHANGE, KINDS };

/* An open file. */
struct stream {
    uint64_t end_ns; /* when the last transfer that was asked for ends */
    unsigned in_flight;
};

/* Once: a file for the counts, which are calls and bytes of each kind, as uint64_t. Numbers, with
 * commas between them: the latency of each kind in ns; the bytes a second of a stream, and of all
 * streams together when 1, 2, ... transfer, the last also for more. A rate of 0 is no limit. */
bool pace_init(int counts, const char *latencies, const char *stream, const char *total);
uint64_t now_ns(void);

/* Counts a call, and sleeps until its answer is due. stream: what transfers the bytes, or NULL. */
void pace(enum kind kind, struct stream *stream, size_t bytes, uint64_t arrived_ns);
