/*
 * Tree walks. libc's nftw and ftw call libc's own opendir and stat, so a walk that starts in a
 * mount is done here.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../client/paths/resolve.h"
#include "../real.h"

typedef int visit_fn(const char *path, const struct stat *st, int kind, struct FTW *place);
typedef int old_visit_fn(const char *path, const struct stat *st, int kind);

/* A directory that was visited by a walk that follows links. */
struct seen {
    dev_t device;
    ino_t inode;
};

/* full: the path; absolute if the walk changes directory. The program gets the part from `skip`
 * on. */
struct walk {
    visit_fn *visit;
    old_visit_fn *old_visit;
    int flags;
    dev_t device;
    void *seen; /* tree of tsearch(3) */
    size_t skip;
    char full[2 * PATH_MAX];
};

static bool starts_in_mount(const char *path)
{
    struct fan_target target;
    return fan_locate_change(AT_FDCWD, path, 0, &target) || target.where == FAN_TREE;
}

static int report(struct walk *walk, const struct stat *st, int kind, size_t base, int level)
{
    struct FTW place = {.base = (int)(base - walk->skip), .level = level};
    const char *path = walk->full + walk->skip;
    if (walk->visit != NULL)
        return walk->visit(path, st, kind, &place);
    return walk->old_visit(path, st, kind == FTW_SL || kind == FTW_SLN ? FTW_F : kind);
}

/* Reads the type and attributes of the walk's path. Returns -1 if the walk must end, with errno
 * set. */
static int look(struct walk *walk, struct stat *st, int level)
{
    bool physical = walk->flags & FTW_PHYS;
    if ((physical ? lstat : stat)(walk->full, st) == 0)
        return S_ISDIR(st->st_mode) ? FTW_D : S_ISLNK(st->st_mode) ? FTW_SL : FTW_F;
    int error = errno;
    if (error != EACCES && error != ENOENT)
        return -1;
    if (!physical && lstat(walk->full, st) == 0 && S_ISLNK(st->st_mode))
        return FTW_SLN;
    errno = error;
    return level > 0 ? FTW_NS : -1;
}

static int compare_seen(const void *left, const void *right)
{
    const struct seen *a = left, *b = right;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return a->inode < b->inode ? -1 : a->inode > b->inode;
}

/* A walk that follows links enters each directory only once. Returns 1 if it was visited before, 0
 * if not, -1 if there is no memory. */
static int seen_before(struct walk *walk, const struct stat *st)
{
    struct seen *entry = malloc(sizeof(*entry));
    if (entry == NULL)
        return -1;
    *entry = (struct seen){st->st_dev, st->st_ino};
    void *found = tsearch(entry, &walk->seen, compare_seen);
    if (found != NULL && *(struct seen **)found == entry)
        return 0;
    free(entry);
    return found != NULL ? 1 : -1;
}

static int enter(const struct walk *walk)
{
    return walk->flags & FTW_CHDIR ? chdir(walk->full) : 0;
}

static int visit_entry(struct walk *walk, size_t length, size_t base, int level);

static int visit_name(struct walk *walk, const char *name, size_t length, int level)
{
    size_t bytes = strlen(name);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    if (length + bytes + 2 > sizeof(walk->full)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    size_t start = length;
    if (walk->full[start - 1] != '/')
        walk->full[start++] = '/';
    memcpy(walk->full + start, name, bytes + 1);
    int rc = visit_entry(walk, start + bytes, start, level + 1);
    walk->full[length] = '\0';
    return (walk->flags & FTW_ACTIONRETVAL) && rc == FTW_SKIP_SUBTREE ? 0 : rc;
}

static int visit_names(struct walk *walk, DIR *dir, size_t length, int level)
{
    struct dirent *entry;
    int rc = enter(walk);
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        rc = visit_name(walk, entry->d_name, length, level);
        if (rc == 0 && entry->d_type != DT_REG)
            rc = enter(walk); /* back, in case the function changed the directory */
    }
    return (walk->flags & FTW_ACTIONRETVAL) && rc == FTW_SKIP_SIBLINGS ? 0 : rc;
}

static int visit_directory(struct walk *walk, const struct stat *st, size_t length, size_t base,
                           int level)
{
    int before = walk->flags & FTW_PHYS ? 0 : seen_before(walk, st);
    if (before != 0)
        return before < 0 ? -1 : 0;
    DIR *dir = opendir(walk->full);
    if (dir == NULL)
        return errno == EACCES ? report(walk, st, FTW_DNR, base, level) : -1;
    int rc = walk->flags & FTW_DEPTH ? 0 : report(walk, st, FTW_D, base, level);
    if (rc == 0)
        rc = visit_names(walk, dir, length, level);
    closedir(dir);
    if (rc == 0 && (walk->flags & FTW_DEPTH))
        rc = report(walk, st, FTW_DP, base, level);
    return rc;
}

static int visit_entry(struct walk *walk, size_t length, size_t base, int level)
{
    struct stat st;
    int kind = look(walk, &st, level);
    if (kind < 0)
        return -1;
    if (level == 0)
        walk->device = st.st_dev;
    if ((walk->flags & FTW_MOUNT) && kind != FTW_NS && st.st_dev != walk->device)
        return 0;
    return kind == FTW_D ? visit_directory(walk, &st, length, base, level)
                         : report(walk, &st, kind, base, level);
}

/* Copies the start to the walk's path. Returns its length, or 0 and sets errno. */
static size_t begin(struct walk *walk, const char *start, const char *here)
{
    size_t bytes = strlen(start);
    walk->skip = (walk->flags & FTW_CHDIR) && start[0] != '/' ? strlen(here) + 1 : 0;
    if (bytes == 0 || bytes >= PATH_MAX) {
        errno = bytes == 0 ? ENOENT : ENAMETOOLONG;
        return 0;
    }
    if (walk->skip > 0) {
        memcpy(walk->full, here, walk->skip - 1);
        walk->full[walk->skip - 1] = '/';
    }
    memcpy(walk->full + walk->skip, start, bytes + 1);
    size_t length = walk->skip + bytes;
    while (length > walk->skip + 1 && walk->full[length - 1] == '/')
        walk->full[--length] = '\0';
    return length;
}

/* Changes into the directory that contains the start. */
static int enter_parent(struct walk *walk, size_t base)
{
    if (base == walk->skip)
        return 0;
    char first = walk->full[base];
    walk->full[base] = '\0';
    int rc = enter(walk);
    walk->full[base] = first;
    return rc;
}

static int run(struct walk *walk, const char *start)
{
    char here[PATH_MAX] = "";
    if ((walk->flags & FTW_CHDIR) && getcwd(here, sizeof(here)) == NULL)
        return -1;
    size_t length = begin(walk, start, here);
    if (length == 0)
        return -1;
    const char *slash = strrchr(walk->full + walk->skip, '/');
    size_t base = slash != NULL && slash[1] != '\0' ? (size_t)(slash + 1 - walk->full) : walk->skip;
    int rc = enter_parent(walk, base);
    if (rc == 0)
        rc = visit_entry(walk, length, base, 0);
    tdestroy(walk->seen, free);
    int error = errno;
    if (here[0] != '\0' && chdir(here) < 0)
        return -1;
    errno = error;
    return (walk->flags & FTW_ACTIONRETVAL) && rc == FTW_SKIP_SUBTREE ? 0 : rc;
}

static int walk_from(const char *path, visit_fn *visit, old_visit_fn *old_visit, int flags)
{
    struct walk *walk = malloc(sizeof(*walk));
    if (walk == NULL)
        return -1;
    walk->visit = visit;
    walk->old_visit = old_visit;
    walk->flags = flags;
    walk->seen = NULL;
    int rc = run(walk, path);
    free(walk);
    return rc;
}

FAN_EXPORT int nftw(const char *path, visit_fn *visit, int descriptors, int flags)
{
    return starts_in_mount(path) ? walk_from(path, visit, NULL, flags)
                                 : REAL(nftw)(path, visit, descriptors, flags);
}

FAN_EXPORT int ftw(const char *path, old_visit_fn *visit, int descriptors)
{
    return starts_in_mount(path) ? walk_from(path, NULL, visit, 0)
                                 : REAL(ftw)(path, visit, descriptors);
}
