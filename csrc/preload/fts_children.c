#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../client/dirstream.h"
#include "fts_node.h"

int fan_fts_enter(const FTS *walk, const FTSENT *node, int fd, const char *path)
{
    struct stat st;
    if (fan_fts_has(walk, FTS_NOCHDIR))
        return 0;
    int own = fd < 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0 && own < 0)
        return -1;
    int rc = fstat(fd < 0 ? own : fd, &st);
    if (rc == 0 && (st.st_dev != node->fts_dev || st.st_ino != node->fts_ino)) {
        errno = ENOENT;
        rc = -1;
    }
    if (rc == 0)
        rc = fchdir(fd < 0 ? own : fd);
    int error = errno;
    if (own >= 0)
        close(own);
    errno = error;
    return rc;
}

int fan_fts_go_back(const FTS *walk, const FTSENT *node)
{
    if (fan_fts_has(walk, FTS_NOCHDIR))
        return 0;
    if (node->fts_level == FTS_ROOTLEVEL)
        return fchdir(walk->fts_rfd);
    if (node->fts_flags & FTS_SYMFOLLOW)
        return fchdir(node->fts_symfd);
    return node->fts_flags & FTS_DONTCHDIR ? 0 : fan_fts_enter(walk, node->fts_parent, -1, "..");
}

void fan_fts_forget_link(FTSENT *node)
{
    if (node->fts_flags & FTS_SYMFOLLOW)
        close(node->fts_symfd);
    node->fts_flags &= (unsigned short)~FTS_SYMFOLLOW;
}

void fan_fts_put_name(const FTS *walk, const FTSENT *parent, const FTSENT *child)
{
    size_t at = fan_fts_child_at(parent);
    walk->fts_path[at - 1] = '/';
    memcpy(walk->fts_path + at, child->fts_name, child->fts_namelen + 1u);
}

/* Where a child is looked at from, and what is seen. refused: the errno with which its directory
 * could not be entered, or 0. */
static void look_child(FTS *walk, FTSENT *parent, FTSENT *child, bool look, int refused)
{
    if (refused != 0) {
        child->fts_accpath = parent->fts_accpath;
        child->fts_info = look ? FTS_NS : FTS_NSOK;
        child->fts_errno = look ? refused : 0;
        return;
    }
    bool whole = fan_fts_has(walk, FTS_NOCHDIR);
    child->fts_accpath = whole ? walk->fts_path : child->fts_name;
    if (whole && look)
        fan_fts_put_name(walk, parent, child);
    child->fts_info = look ? fan_fts_look(walk, child, false) : FTS_NSOK;
}

/* A node for one entry of a directory; `made` is the list so far. NULL with errno. */
static FTSENT *make_child(FTS *walk, FTSENT *parent, const char *name, FTSENT *made)
{
    size_t bytes = strlen(name), length = fan_fts_child_at(parent) + bytes;
    FTSENT *child = fan_fts_make(walk, name, bytes);
    if (child == NULL)
        return NULL;
    if (parent->fts_level == SHRT_MAX || fan_fts_path_room(walk, length + 1, made) != 0) {
        errno = parent->fts_level == SHRT_MAX ? ENAMETOOLONG : errno;
        free(child);
        return NULL;
    }
    child->fts_path = walk->fts_path;
    child->fts_level = (short)(parent->fts_level + 1);
    child->fts_parent = parent;
    child->fts_pathlen = (unsigned short)length;
    return child;
}

/* A file of a known type need not be looked at where only directories matter. */
static bool wanted(const FTS *walk, const struct dirent *entry, enum fan_fts_detail detail)
{
    if (detail == FAN_FTS_NAMES)
        return false;
    return !fan_fts_has(walk, FTS_NOSTAT) || !fan_fts_has(walk, FTS_PHYSICAL) ||
           entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN;
}

static bool skipped(const FTS *walk, const char *name)
{
    bool dot = name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
    return dot && !fan_fts_has(walk, FTS_SEEDOT);
}

/* The children of an open directory, counted. false: the walk must end, with errno. */
static bool list(FTS *walk, DIR *dir, enum fan_fts_detail detail, int refused, FTSENT **first,
                 size_t *count)
{
    FTSENT *parent = walk->fts_cur, *last = NULL;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (skipped(walk, entry->d_name))
            continue;
        FTSENT *child = make_child(walk, parent, entry->d_name, *first);
        if (child == NULL)
            return false;
        look_child(walk, parent, child, wanted(walk, entry, detail), refused);
        *(last != NULL ? &last->fts_link : first) = child;
        last = child;
        (*count)++;
    }
    return true;
}

static bool is_mount(dev_t device)
{
    for (unsigned i = 0; i < fan_job.view_count; i++) {
        if (fan_job.views[i].device == device)
            return true;
    }
    return false;
}

/* By a link outside, an original was seen where its mount was opened: the node is the mount's. */
static void take_for_mount(FTS *walk, FTSENT *node, DIR *dir)
{
    struct stat st;
    if (fan_dirstream_of(dir) == NULL || is_mount(node->fts_dev) || fstat(dirfd(dir), &st) != 0)
        return;
    node->fts_dev = st.st_dev;
    node->fts_ino = st.st_ino;
    if (node->fts_level == FTS_ROOTLEVEL)
        walk->fts_dev = st.st_dev;
}

/* The children could not be listed: the node says why. */
static FTSENT *fail(FTS *walk, FTSENT *made, int error)
{
    fan_fts_free(made);
    walk->fts_cur->fts_info = FTS_ERR;
    walk->fts_cur->fts_errno = error;
    walk->fts_options |= FTS_STOP;
    errno = error;
    return NULL;
}

FTSENT *fan_fts_build(FTS *walk, enum fan_fts_detail detail)
{
    FTSENT *node = walk->fts_cur, *first = NULL;
    size_t count = 0;
    int refused = 0;
    DIR *dir = opendir(node->fts_accpath);
    if (dir == NULL) {
        if (detail == FAN_FTS_READ) {
            node->fts_info = FTS_DNR;
            node->fts_errno = errno;
            fan_fts_forget_link(node);
        }
        return NULL;
    }
    take_for_mount(walk, node, dir);
    bool go = detail != FAN_FTS_NAMES && !fan_fts_has(walk, FTS_NOCHDIR);
    if (go && fan_fts_enter(walk, node, dirfd(dir), NULL) != 0) {
        refused = errno;
        node->fts_errno = detail == FAN_FTS_READ ? refused : node->fts_errno;
        node->fts_flags |= FTS_DONTCHDIR;
    }
    bool listed = list(walk, dir, detail, refused, &first, &count);
    int error = errno;
    closedir(dir);
    walk->fts_path[node->fts_pathlen] = '\0';
    if (!listed)
        return fail(walk, first, error);
    bool stays = detail == FAN_FTS_LIST || count == 0;
    if (go && refused == 0 && stays && fan_fts_go_back(walk, node) != 0)
        return fail(walk, first, errno);
    if (count == 0 && detail == FAN_FTS_READ) {
        node->fts_info = FTS_DP;
        fan_fts_forget_link(node);
    }
    return fan_fts_sort(walk, first, count);
}
