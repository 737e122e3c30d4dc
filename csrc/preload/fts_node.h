/*
 * The nodes of a walk by fts(3), in the structures of <fts.h>: a node with its name, and its struct
 * stat unless FTS_NOSTAT, is one block of malloc(3). The path of all nodes is one buffer of the
 * walk's, which moves when it grows.
 */
#ifndef FAN_PRELOAD_FTS_NODE_H
#define FAN_PRELOAD_FTS_NODE_H

#include <fts.h>
#include <stdbool.h>
#include <stddef.h>

/* An option that libc does not have: the walk is ours. */
enum { FAN_FTS_OURS = 0x10000 };

static inline bool fan_fts_has(const FTS *walk, int option)
{
    return (walk->fts_options & option) != 0;
}

/* A node by name, of which nothing else is known yet. NULL: no memory, or the name is too long. */
FTSENT *fan_fts_make(FTS *walk, const char *name, size_t bytes);

/* What stands at the node's fts_accpath: the fts_info. follow: through a link, as FTS_LOGICAL does
 * always. */
unsigned short fan_fts_look(const FTS *walk, FTSENT *node, bool follow);

/* The list in the order of the walk's comparison; as it is where there is no memory to sort it. */
FTSENT *fan_fts_sort(const FTS *walk, FTSENT *list, size_t count);

void fan_fts_free(FTSENT *list);

/* Frees a node, its siblings after it and what lies above them. */
void fan_fts_free_all(FTSENT *node);

/* Makes room in the walk's path for `bytes` with the NUL; `made` is a list not yet linked to the
 * walk, or NULL. 0, or -1 with errno: no memory, or more than fts(3) can count. */
int fan_fts_path_room(FTS *walk, size_t bytes, FTSENT *made);

/* Where the name of a child begins in the path, after a slash. */
static inline size_t fan_fts_child_at(const FTSENT *node)
{
    size_t length = node->fts_pathlen;
    return length > 0 && node->fts_path[length - 1] == '/' ? length : length + 1;
}

/* How much is to be known of a directory's children. */
enum fan_fts_detail {
    FAN_FTS_READ,  /* all, and the walk goes there */
    FAN_FTS_LIST,  /* all, and the walk stays */
    FAN_FTS_NAMES, /* their names */
};

/* The children of the node where the walk stands, sorted; NULL: none, or its fts_info says why.
 * (fts_children.c) */
FTSENT *fan_fts_build(FTS *walk, enum fan_fts_detail detail);

/* Puts a child's name into the walk's path. */
void fan_fts_put_name(const FTS *walk, const FTSENT *parent, const FTSENT *child);

/* Makes a node's directory the current one, unless another stands there now (ENOENT) or the walk
 * changes none. fd: it is open, or -1 and `path` leads to it. 0, or -1 with errno. */
int fan_fts_enter(const FTS *walk, const FTSENT *node, int fd, const char *path);

/* Back from a node's directory to where it is a name. 0, or -1 with errno. */
int fan_fts_go_back(const FTS *walk, const FTSENT *node);

/* The walk is through with a directory that it had come to by a link. */
void fan_fts_forget_link(FTSENT *node);

#endif
