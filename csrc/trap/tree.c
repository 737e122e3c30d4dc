#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../client/paths/linked.h"
#include "../client/paths/resolve.h"
#include "../common/sys.h"
#include "origin.h"

enum { DEPTH_MAX = 2048 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *filled[FAN_JOB_MOUNTS_MAX]; /* one bit for each record */

int fan_trap_tree_begin(void)
{
    const char *job = fan_job.directory.text;
    if (snprintf(fan_origin_root, PATH_MAX, "%s/trap-%d", job, (int)getpid()) >= PATH_MAX - 64)
        return -ENAMETOOLONG;
    return (int)FAN_SYS(mkdirat, AT_FDCWD, fan_origin_root, 0700);
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void remove_tree(int at, const char *name, int depth)
{
    int fd = fan_sys_openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    DIR *dir = fd >= 0 && depth < DEPTH_MAX ? fdopendir(fd) : NULL;
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        if (!is_dots(entry->d_name) && FAN_SYS(unlinkat, dirfd(dir), entry->d_name, 0) == -EISDIR)
            remove_tree(dirfd(dir), entry->d_name, depth + 1);
    }
    if (dir != NULL)
        closedir(dir);
    else if (fd >= 0)
        fan_sys_close(fd);
    FAN_SYS(unlinkat, at, name, AT_REMOVEDIR);
}

void fan_trap_tree_end(void)
{
    if (fan_origin_root[0] != '\0')
        remove_tree(AT_FDCWD, fan_origin_root, 0);
}

static bool is_filled(const struct fan_view *view, uint64_t id)
{
    const unsigned char *bits = filled[view - fan_job.views];
    return id != FAN_TRAP_TREE_CHANGES && bits != NULL && (bits[id / 8] >> (id % 8) & 1);
}

static void set_filled(const struct fan_view *view, uint64_t id)
{
    unsigned char **bits = &filled[view - fan_job.views];
    if (id == FAN_TRAP_TREE_CHANGES)
        return;
    if (*bits == NULL)
        *bits = calloc(view->record_count / 8 + 1, 1);
    if (*bits != NULL)
        (*bits)[id / 8] |= (unsigned char)(1u << (id % 8));
}

/* Makes one entry as it is in the mount, and removes an entry of another type with that name. */
static void put(int at, const char *path, const struct dirent *entry)
{
    char full[PATH_MAX], text[PATH_MAX];
    struct stat st;
    bool link = entry->d_type == DT_LNK;
    if (link && snprintf(full, sizeof(full), "%s/%s", path, entry->d_name) >= (int)sizeof(full))
        return;
    ssize_t bytes = link ? readlink(full, text, sizeof(text) - 1) : 0;
    if (bytes < 0)
        return;
    text[bytes] = '\0';
    for (int tries = 0; tries < 2; tries++) {
        long rc = link ? FAN_SYS(symlinkat, text, at, entry->d_name)
                  : entry->d_type == DT_DIR
                      ? FAN_SYS(mkdirat, at, entry->d_name, 0700)
                      : FAN_SYS(mknodat, at, entry->d_name, DTTOIF(entry->d_type), 0);
        if (rc != -EEXIST ||
            FAN_SYS(newfstatat, at, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            IFTODT(st.st_mode) == entry->d_type)
            return;
        remove_tree(at, entry->d_name, 0);
        FAN_SYS(unlinkat, at, entry->d_name, 0);
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Removes entries that the mount does not have. names: the entries that the mount has, sorted. */
static void drop_others(int fd, char **names, size_t count)
{
    DIR *dir = fdopendir(fan_sys_openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        const char *name = entry->d_name;
        if (is_dots(name) || (count > 0 && bsearch(&name, names, count, sizeof(*names),
                                                   compare_names) != NULL))
            continue;
        if (FAN_SYS(unlinkat, fd, name, 0) == -EISDIR)
            remove_tree(fd, name, 0);
    }
    if (dir != NULL)
        closedir(dir);
}

/* Gives the directory `fd` of the tree the entries of the directory `path` of the mount. */
static int fill(int fd, const char *path, bool changes)
{
    DIR *dir = opendir(path);
    char **names = NULL;
    size_t count = 0, room = 0;
    if (dir == NULL)
        return -errno;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (is_dots(entry->d_name))
            continue;
        put(fd, path, entry);
        if (changes && count == room) {
            char **more = realloc(names, (room = room * 2 + 64) * sizeof(*names));
            if (more == NULL)
                break;
            names = more;
        }
        if (changes)
            names[count++] = strdup(entry->d_name);
    }
    closedir(dir);
    if (changes) {
        qsort(names, count, sizeof(*names), compare_names);
        drop_others(fd, names, count);
    }
    while (count > 0)
        free(names[--count]);
    free(names);
    return 0;
}

/* Returns whether an open directory lies in the tree. It may not, because ".." and links may have
 * led out of the tree, even to the files that were packed. */
static bool is_inside(int fd)
{
    char path[PATH_MAX];
    return fan_fd_path_real(fd, path, sizeof(path)) > 0 && fan_origin_is_ours(path);
}

static bool leads_inside(const char *path, int follow)
{
    int fd = fan_sys_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC | follow, 0);
    bool inside = fd >= 0 && is_inside(fd);
    if (fd >= 0)
        fan_sys_close(fd);
    return inside;
}

/* Makes one directory on the way to another. A file there was listed as one earlier and is
 * replaced. Follows links on the way, but makes and replaces nothing outside the tree. */
static int make_step(char *path, bool last)
{
    struct stat st;
    bool there = FAN_SYS(newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && (S_ISDIR(st.st_mode) || (S_ISLNK(st.st_mode) && !last)))
        return 0;
    char *name = strrchr(path, '/');
    *name = '\0';
    bool inside = strcmp(path, fan_origin_root) == 0 || leads_inside(path, 0);
    *name = '/';
    if (!inside)
        return -EXDEV;
    if (there)
        FAN_SYS(unlinkat, AT_FDCWD, path, 0);
    return (int)FAN_SYS(mkdirat, AT_FDCWD, path, 0700);
}

static int make_chain(char *path)
{
    for (char *at = path + strlen(fan_origin_root) + 1;; at++) {
        at += strcspn(at, "/");
        char kept = *at;
        *at = '\0';
        int rc = make_step(path, kept == '\0');
        *at = kept;
        if (rc < 0 || kept == '\0')
            return rc;
    }
}

int fan_trap_tree_open(struct fan_view *view, const char *relpath, const char *path, uint64_t id,
                       int flags)
{
    char real[PATH_MAX];
    const int kept = O_NONBLOCK | O_NOATIME;
    int rc = fan_origin_tree(view, relpath, real);
    pthread_mutex_lock(&lock);
    rc = rc == 0 ? make_chain(real) : rc;
    int fd = rc < 0 ? rc : fan_sys_openat(AT_FDCWD, real, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0 && !is_inside(fd))
        rc = -EXDEV;
    if (fd >= 0 && rc == 0 && !is_filled(view, id)) {
        rc = fill(fd, path, id == FAN_TRAP_TREE_CHANGES);
        if (rc == 0)
            set_filled(view, id);
    }
    pthread_mutex_unlock(&lock);
    if (fd < 0 || rc < 0 || !(flags & kept)) {
        if (rc < 0 && fd >= 0)
            fan_sys_close(fd);
        return rc < 0 ? rc : fd;
    }
    int again = fan_sys_openat(fd, ".", O_DIRECTORY | O_CLOEXEC | (flags & kept), 0);
    fan_sys_close(fd);
    return again;
}

/* Writes the tree path for a path of a mount. Returns false if there is none. */
static bool tree_path(const char *path, char real[PATH_MAX])
{
    const char *rest;
    struct fan_view *view = fan_match_prefix(path, &rest);
    return view != NULL && fan_origin_tree(view, rest, real) == 0;
}

void fan_trap_tree_move(const char *from, const char *to)
{
    char before[PATH_MAX], after[PATH_MAX];
    if (!tree_path(from, before) || !tree_path(to, after))
        return;
    pthread_mutex_lock(&lock);
    if (leads_inside(before, O_NOFOLLOW)) {
        char *name = strrchr(after, '/');
        *name = '\0';
        make_chain(after);
        bool inside = leads_inside(after, 0);
        *name = '/';
        if (inside) {
            remove_tree(AT_FDCWD, after, 0);
            FAN_SYS(renameat2, AT_FDCWD, before, AT_FDCWD, after, 0);
        }
    }
    pthread_mutex_unlock(&lock);
}

void fan_trap_tree_remove(const char *path)
{
    char real[PATH_MAX];
    if (!tree_path(path, real))
        return;
    pthread_mutex_lock(&lock);
    if (leads_inside(real, O_NOFOLLOW))
        remove_tree(AT_FDCWD, real, 0);
    pthread_mutex_unlock(&lock);
}
