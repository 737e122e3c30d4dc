/*
 * fts(3). libc's opens, lists and enters directories past us, so under a job every walk is done
 * here: one that starts outside may come to a mount.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../client/job.h"
#include "fts_node.h"
#include "real.h"

typedef int compare_fn(const FTSENT **, const FTSENT **);

static FTSENT *stop(FTS *walk)
{
    walk->fts_options |= FTS_STOP;
    return NULL;
}

static void follow(const FTS *walk, FTSENT *node)
{
    node->fts_info = fan_fts_look(walk, node, true);
    if (node->fts_info != FTS_D || fan_fts_has(walk, FTS_NOCHDIR))
        return;
    node->fts_symfd = open(".", O_RDONLY | O_CLOEXEC);
    if (node->fts_symfd >= 0) {
        node->fts_flags |= FTS_SYMFOLLOW;
    } else {
        node->fts_errno = errno;
        node->fts_info = FTS_ERR;
    }
}

static FTSENT *arrive(FTS *walk, FTSENT *node)
{
    fan_fts_put_name(walk, node->fts_parent, node);
    return walk->fts_cur = node;
}

/* To a root, whose name shrinks to its last part. */
static FTSENT *arrive_at_root(FTS *walk, FTSENT *root)
{
    memcpy(walk->fts_path, root->fts_name, root->fts_namelen + 1u);
    root->fts_pathlen = root->fts_namelen;
    char *slash = strrchr(root->fts_name, '/');
    if (slash != NULL && (slash != root->fts_name || slash[1] != '\0')) {
        root->fts_namelen = (unsigned short)strlen(slash + 1);
        memmove(root->fts_name, slash + 1, root->fts_namelen + 1u);
    }
    root->fts_accpath = root->fts_path = walk->fts_path;
    walk->fts_dev = root->fts_dev;
    return walk->fts_cur = root;
}

/* From the last of a directory's children back to it. */
static FTSENT *leave(FTS *walk, FTSENT *last)
{
    FTSENT *node = walk->fts_cur = last->fts_parent;
    free(last);
    if (node->fts_level == FTS_ROOTPARENTLEVEL) {
        free(node);
        errno = 0;
        return walk->fts_cur = NULL;
    }
    walk->fts_path[node->fts_pathlen] = '\0';
    if (fan_fts_go_back(walk, node) != 0)
        return stop(walk);
    fan_fts_forget_link(node);
    node->fts_info = node->fts_errno != 0 ? FTS_ERR : FTS_DP;
    return node;
}

static FTSENT *go_on(FTS *walk, FTSENT *node)
{
    for (FTSENT *next; (next = node->fts_link) != NULL;) {
        walk->fts_cur = next;
        free(node);
        node = next;
        if (node->fts_level == FTS_ROOTLEVEL) {
            if (!fan_fts_has(walk, FTS_NOCHDIR) && fchdir(walk->fts_rfd) != 0)
                return stop(walk);
            return arrive_at_root(walk, node);
        }
        if (node->fts_instr == FTS_SKIP)
            continue;
        fan_fts_put_name(walk, node->fts_parent, node);
        if (node->fts_instr == FTS_FOLLOW) {
            follow(walk, node);
            node->fts_instr = FTS_NOINSTR;
        }
        return arrive(walk, node);
    }
    return leave(walk, node);
}

static void drop_children(FTS *walk)
{
    fan_fts_free(walk->fts_child);
    walk->fts_child = NULL;
}

/* The children that fts_children has listed are walked next. */
static void enter_listed(FTS *walk, FTSENT *node)
{
    if (fan_fts_enter(walk, node, -1, node->fts_accpath) == 0)
        return;
    node->fts_errno = errno;
    node->fts_flags |= FTS_DONTCHDIR;
    for (FTSENT *child = walk->fts_child; child != NULL; child = child->fts_link)
        child->fts_accpath = node->fts_accpath;
}

/* Into a directory that was shown before. */
static FTSENT *descend(FTS *walk, FTSENT *node, int instruction)
{
    bool other = fan_fts_has(walk, FTS_XDEV) && node->fts_dev != walk->fts_dev;
    if (instruction == FTS_SKIP || other) {
        fan_fts_forget_link(node);
        drop_children(walk);
        node->fts_info = FTS_DP;
        return node;
    }
    if (fan_fts_has(walk, FTS_NAMEONLY)) {
        walk->fts_options &= ~FTS_NAMEONLY;
        drop_children(walk);
    }
    if (walk->fts_child != NULL)
        enter_listed(walk, node);
    else
        walk->fts_child = fan_fts_build(walk, FAN_FTS_READ);
    if (walk->fts_child == NULL)
        return fan_fts_has(walk, FTS_STOP) ? NULL : node;
    FTSENT *first = walk->fts_child;
    walk->fts_child = NULL;
    return arrive(walk, first);
}

FAN_EXPORT FTSENT *fts_read(FTS *walk)
{
    if (!fan_fts_has(walk, FAN_FTS_OURS))
        return REAL(fts_read)(walk);
    FTSENT *node = walk->fts_cur;
    if (node == NULL || fan_fts_has(walk, FTS_STOP))
        return NULL;
    int instruction = node->fts_instr;
    node->fts_instr = FTS_NOINSTR;
    if (instruction == FTS_AGAIN) {
        node->fts_info = fan_fts_look(walk, node, false);
        return node;
    }
    if (instruction == FTS_FOLLOW && (node->fts_info == FTS_SL || node->fts_info == FTS_SLNONE)) {
        follow(walk, node);
        return node;
    }
    return node->fts_info == FTS_D ? descend(walk, node, instruction) : go_on(walk, node);
}

/* Listing changes directory: to come back from there, where a root is relative, the way is kept. */
static FTSENT *list_children(FTS *walk, FTSENT *node, enum fan_fts_detail detail)
{
    if (node->fts_level != FTS_ROOTLEVEL || node->fts_accpath[0] == '/' ||
        fan_fts_has(walk, FTS_NOCHDIR))
        return fan_fts_build(walk, detail);
    int here = open(".", O_RDONLY | O_CLOEXEC);
    if (here < 0)
        return NULL;
    FTSENT *children = fan_fts_build(walk, detail);
    int error = errno;
    if (fchdir(here) != 0) {
        fan_fts_free(children);
        children = NULL;
        error = errno;
    }
    close(here);
    errno = error;
    return children;
}

FAN_EXPORT FTSENT *fts_children(FTS *walk, int instruction)
{
    if (!fan_fts_has(walk, FAN_FTS_OURS))
        return REAL(fts_children)(walk, instruction);
    FTSENT *node = walk->fts_cur;
    errno = instruction != 0 && instruction != FTS_NAMEONLY ? EINVAL : 0;
    if (errno != 0 || node == NULL || fan_fts_has(walk, FTS_STOP))
        return NULL;
    if (node->fts_info == FTS_INIT)
        return node->fts_link;
    if (node->fts_info != FTS_D)
        return NULL;
    drop_children(walk);
    walk->fts_options |= instruction;
    enum fan_fts_detail detail = instruction == FTS_NAMEONLY ? FAN_FTS_NAMES : FAN_FTS_LIST;
    return walk->fts_child = list_children(walk, node, detail);
}

FAN_EXPORT int fts_set(FTS *walk, FTSENT *node, int instruction)
{
    if (!fan_fts_has(walk, FAN_FTS_OURS))
        return REAL(fts_set)(walk, node, instruction);
    if (instruction < 0 || instruction > FTS_SKIP) {
        errno = EINVAL;
        return 1;
    }
    node->fts_instr = (unsigned short)instruction;
    return 0;
}

FAN_EXPORT int fts_close(FTS *walk)
{
    if (!fan_fts_has(walk, FAN_FTS_OURS))
        return REAL(fts_close)(walk);
    int rc = 0, error = errno;
    for (FTSENT *node = walk->fts_cur; node != NULL; node = node->fts_parent)
        fan_fts_forget_link(node);
    fan_fts_free_all(walk->fts_cur);
    fan_fts_free(walk->fts_child);
    if (!fan_fts_has(walk, FTS_NOCHDIR)) {
        rc = fchdir(walk->fts_rfd);
        error = rc == 0 ? error : errno;
        close(walk->fts_rfd);
    }
    free(walk->fts_path);
    free(walk);
    errno = error;
    return rc;
}

/* The roots below a node that stands above them all. NULL with errno. */
static FTSENT *make_roots(FTS *walk, char *const *paths)
{
    FTSENT *above = fan_fts_make(walk, "", 0), *first = NULL, *last = NULL;
    if (above == NULL)
        return NULL;
    above->fts_level = FTS_ROOTPARENTLEVEL;
    walk->fts_cur = above;
    size_t count = 0;
    for (; paths[count] != NULL; count++) {
        size_t bytes = strlen(paths[count]);
        errno = ENOENT;
        FTSENT *root = bytes > 0 ? fan_fts_make(walk, paths[count], bytes) : NULL;
        if (root == NULL || fan_fts_path_room(walk, bytes + 1, first) != 0) {
            free(root);
            fan_fts_free(first);
            return NULL;
        }
        root->fts_parent = above;
        root->fts_level = FTS_ROOTLEVEL;
        root->fts_accpath = root->fts_name;
        root->fts_info = fan_fts_look(walk, root, fan_fts_has(walk, FTS_COMFOLLOW));
        if (root->fts_info == FTS_DOT)
            root->fts_info = FTS_D;
        *(last != NULL ? &last->fts_link : &first) = root;
        last = root;
    }
    above->fts_link = fan_fts_sort(walk, first, count);
    return above;
}

/* Where the walk begins: before its first root. */
static bool begin(FTS *walk, char *const *paths)
{
    if (fan_fts_path_room(walk, PATH_MAX, NULL) != 0)
        return false;
    FTSENT *above = make_roots(walk, paths);
    if (above == NULL)
        return false;
    FTSENT *roots = above->fts_link;
    above->fts_link = NULL;
    FTSENT *start = fan_fts_make(walk, "", 0);
    if (start == NULL) {
        fan_fts_free(roots);
        return false;
    }
    start->fts_link = roots;
    start->fts_parent = above;
    start->fts_level = FTS_ROOTLEVEL;
    start->fts_info = FTS_INIT;
    walk->fts_cur = start;
    return true;
}

FAN_EXPORT FTS *fts_open(char *const *paths, int options, compare_fn *compare)
{
    if (fan_job.view_count == 0)
        return REAL(fts_open)(paths, options, compare);
    if (options & ~FTS_OPTIONMASK) {
        errno = EINVAL;
        return NULL;
    }
    FTS *walk = calloc(1, sizeof(*walk));
    if (walk == NULL)
        return NULL;
    walk->fts_compar = (int (*)(const void *, const void *))compare;
    walk->fts_options = options | FAN_FTS_OURS | (options & FTS_LOGICAL ? FTS_NOCHDIR : 0);
    if (!begin(walk, paths)) {
        int error = errno;
        fan_fts_free_all(walk->fts_cur);
        free(walk->fts_path);
        free(walk);
        errno = error;
        return NULL;
    }
    walk->fts_rfd = -1;
    if (!fan_fts_has(walk, FTS_NOCHDIR))
        walk->fts_rfd = open(".", O_RDONLY | O_CLOEXEC);
    if (walk->fts_rfd < 0)
        walk->fts_options |= FTS_NOCHDIR;
    return walk;
}

FAN_ALIAS(fts64_open, fts_open);
FAN_ALIAS(fts64_read, fts_read);
FAN_ALIAS(fts64_children, fts_children);
FAN_ALIAS(fts64_set, fts_set);
FAN_ALIAS(fts64_close, fts_close);
