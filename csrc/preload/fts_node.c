#include "fts_node.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STAT_ALIGNMENT = _Alignof(struct stat) };

FTSENT *fan_fts_make(FTS *walk, const char *name, size_t bytes)
{
    if (bytes > USHRT_MAX) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    size_t size = sizeof(FTSENT) + bytes;
    size_t place = (size + STAT_ALIGNMENT - 1) / STAT_ALIGNMENT * STAT_ALIGNMENT;
    bool with_stat = !fan_fts_has(walk, FTS_NOSTAT);
    FTSENT *node = calloc(1, with_stat ? place + sizeof(struct stat) : size);
    if (node == NULL)
        return NULL;
    memcpy(node->fts_name, name, bytes);
    node->fts_namelen = (unsigned short)bytes;
    node->fts_path = walk->fts_path;
    node->fts_instr = FTS_NOINSTR;
    if (with_stat)
        node->fts_statp = (struct stat *)(void *)((char *)node + place);
    return node;
}

/* The directory above that this one is once more, or NULL. */
static FTSENT *same_above(const FTSENT *node)
{
    for (FTSENT *above = node->fts_parent; above->fts_level >= FTS_ROOTLEVEL;
         above = above->fts_parent) {
        if (above->fts_ino == node->fts_ino && above->fts_dev == node->fts_dev)
            return above;
    }
    return NULL;
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static unsigned short look_directory(FTSENT *node, const struct stat *st)
{
    node->fts_dev = st->st_dev;
    node->fts_ino = st->st_ino;
    node->fts_nlink = st->st_nlink;
    if (is_dot(node->fts_name))
        return FTS_DOT;
    node->fts_cycle = same_above(node);
    return node->fts_cycle != NULL ? FTS_DC : FTS_D;
}

unsigned short fan_fts_look(const FTS *walk, FTSENT *node, bool follow)
{
    struct stat own, *st = node->fts_statp != NULL ? node->fts_statp : &own;
    follow = follow || fan_fts_has(walk, FTS_LOGICAL);
    if ((follow ? stat : lstat)(node->fts_accpath, st) != 0) {
        node->fts_errno = errno;
        if (follow && lstat(node->fts_accpath, st) == 0) {
            node->fts_errno = 0;
            return FTS_SLNONE;
        }
        memset(st, 0, sizeof(*st));
        return FTS_NS;
    }
    if (S_ISDIR(st->st_mode))
        return look_directory(node, st);
    return S_ISLNK(st->st_mode) ? FTS_SL : S_ISREG(st->st_mode) ? FTS_F : FTS_DEFAULT;
}

FTSENT *fan_fts_sort(const FTS *walk, FTSENT *list, size_t count)
{
    FTSENT **all = walk->fts_compar != NULL && count > 1 ? calloc(count, sizeof(*all)) : NULL;
    if (all == NULL)
        return list;
    size_t n = 0;
    for (FTSENT *node = list; node != NULL && n < count; node = node->fts_link)
        all[n++] = node;
    qsort(all, n, sizeof(*all), walk->fts_compar);
    for (size_t i = 0; i < n; i++)
        all[i]->fts_link = i + 1 < n ? all[i + 1] : NULL;
    list = all[0];
    free(all);
    return list;
}

void fan_fts_free(FTSENT *list)
{
    while (list != NULL) {
        FTSENT *next = list->fts_link;
        free(list);
        list = next;
    }
}

static FTSENT *next_or_above(const FTSENT *node)
{
    return node->fts_link != NULL ? node->fts_link : node->fts_parent;
}

void fan_fts_free_all(FTSENT *node)
{
    while (node != NULL) {
        FTSENT *next = next_or_above(node);
        free(node);
        node = next;
    }
}

static void move_path(FTSENT *node, const char *old, char *path)
{
    for (; node != NULL && node->fts_level >= FTS_ROOTLEVEL; node = next_or_above(node)) {
        if (node->fts_accpath == old)
            node->fts_accpath = path;
        node->fts_path = path;
    }
}

int fan_fts_path_room(FTS *walk, size_t bytes, FTSENT *made)
{
    if (bytes > USHRT_MAX) { /* though a buffer of more may be there */
        errno = ENAMETOOLONG;
        return -1;
    }
    if (bytes <= (size_t)walk->fts_pathlen)
        return 0;
    size_t size = bytes + PATH_MAX;
    char *old = walk->fts_path, *path = malloc(size);
    if (path == NULL)
        return -1;
    if (old != NULL)
        memcpy(path, old, (size_t)walk->fts_pathlen);
    walk->fts_path = path;
    walk->fts_pathlen = (int)size;
    move_path(made, old, path);
    move_path(walk->fts_child, old, path);
    move_path(walk->fts_cur, old, path);
    free(old);
    return 0;
}
