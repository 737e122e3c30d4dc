#include "names.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../client/machine/spelling.h"
#include "../client/paths/resolve.h"
#include "../common/sys.h"

enum { LINKS_MAX = 40 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The links that were made. */
static struct name {
    struct name *next;
    char path[];
} *names;

static void note(const char *path)
{
    struct name *name = malloc(sizeof(*name) + strlen(path) + 1);
    if (name == NULL)
        return;
    strcpy(name->path, path);
    pthread_mutex_lock(&lock);
    name->next = names;
    names = name;
    pthread_mutex_unlock(&lock);
}

void fan_names_end(void)
{
    pthread_mutex_lock(&lock);
    while (names != NULL) {
        struct name *gone = names;
        char text[PATH_MAX];
        names = gone->next;
        if (FAN_SYS(readlinkat, AT_FDCWD, gone->path, text, sizeof(text)) >= 0)
            FAN_SYS(unlinkat, AT_FDCWD, gone->path, 0);
        free(gone);
    }
    pthread_mutex_unlock(&lock);
}

static int put_link(const char *path, const char *to)
{
    long rc = FAN_SYS(symlinkat, to, AT_FDCWD, path);
    if (rc == 0)
        note(path);
    return rc == -EEXIST ? 0 : (int)rc;
}

/* Returns whether a name is a link to `to`. */
static bool leads_to(const char *path, const char *to)
{
    char text[PATH_MAX];
    fan_sys_readlink(AT_FDCWD, path, text, sizeof(text));
    return strcmp(text, to) == 0;
}

/* Returns the mount of a path, if names may be made in it; otherwise NULL. */
static struct fan_view *made_view(const char *path, const char **rest)
{
    struct fan_view *view = fan_match_prefix(path, rest);
    return view != NULL && view->prefix_made ? view : NULL;
}

/* Makes the last component of `done` real; the components before it are real already. For a link,
 * sets `done` to the link's absolute target, and returns 1. */
static int make_real(char done[PATH_MAX])
{
    char to[PATH_MAX];
    const char *rest;
    struct stat st;
    if (lstat(done, &st) != 0)
        return -errno;
    bool made = made_view(done, &rest) != NULL; /* false: a link led elsewhere */
    if (!S_ISLNK(st.st_mode)) {
        long rc = !S_ISDIR(st.st_mode) ? -ENOTDIR
                  : made               ? FAN_SYS(mkdirat, AT_FDCWD, done, 0700)
                                       : 0;
        return rc == -EEXIST ? 0 : (int)rc;
    }
    if (realpath(done, to) == NULL)
        return -errno;
    char spelt[PATH_MAX + 2] = "/."; /* the spelling by which it is recognised as FanStore's */
    strcpy(spelt + 2, to);
    int rc = made ? put_link(done, spelt) : 0;
    strcpy(done, to);
    return rc < 0 ? rc : 1;
}

static int lead(const char *path, int links)
{
    char done[PATH_MAX];
    const char *at;
    struct fan_view *view = made_view(path, &at);
    if (view == NULL)
        return fan_match_prefix(path, &at) == NULL ? 0 : -EOPNOTSUPP; /* all exists outside */
    memcpy(done, view->prefix.text, view->prefix.bytes + 1);
    while (*(at += strspn(at, "/")) != '\0') {
        size_t bytes = strcspn(at, "/"), length = strlen(done);
        if (length + bytes + 2 > sizeof(done))
            return -ENAMETOOLONG;
        if (fan_is_dot_dot(at, bytes)) {
            char *last = strrchr(done, '/');
            if (last != NULL) /* otherwise at the root, whose parent is the root */
                *last = '\0';
        } else if (!fan_is_dot(at, bytes)) {
            done[length] = '/';
            memcpy(done + length + 1, at, bytes);
            done[length + 1 + bytes] = '\0';
            int rc = make_real(done);
            if (rc == 1)
                rc = links > 0 ? lead(done, links - 1) : -ELOOP;
            if (rc < 0)
                return rc;
        }
        at += bytes;
    }
    return 0;
}

int fan_names_lead(const char *path)
{
    return lead(path, LINKS_MAX);
}

int fan_names_program(const char *path, const char *copy)
{
    char parent[PATH_MAX], real[PATH_MAX];
    const char *rest;
    if (made_view(path, &rest) == NULL || strlen(path) >= sizeof(parent))
        return -EOPNOTSUPP;
    strcpy(parent, path);
    *strrchr(parent, '/') = '\0';
    int rc = lead(parent, LINKS_MAX);
    if (rc == 0 && (realpath(parent, real) == NULL || made_view(real, &rest) == NULL))
        return -EOPNOTSUPP; /* a link led where no names may be made */
    rc = rc == 0 ? put_link(path, copy) : rc;
    if (rc != 0 || leads_to(path, copy)) /* another process may be starting it */
        return rc;
    FAN_SYS(unlinkat, AT_FDCWD, path, 0); /* a link to another version */
    return put_link(path, copy);
}
