/* The names that the kernel knows, as a tree. An open descriptor for each would need more of them
 * than a process may have, so that only a file that has lost its name is held by one. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slow.h"

enum { CHAINS = 1 << 18, NAMED = -2 };

struct node {
    struct node *parent, *next; /* next: in its chain */
    char *name;
    uint64_t users; /* how often the kernel has it, and nodes below it */
    int fd;         /* NAMED: the path is by parents; else this descriptor's, which may be -1 */
    struct timespec seen;
    off_t seen_bytes;
};

/* `names` guards parent, name and fd; `table`, which is taken after it, the other fields and the
 * chains. */
static pthread_rwlock_t names = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static struct node root = {.fd = NAMED}, *chains[CHAINS];

struct node *node_of(uint64_t id)
{
    return id == FUSE_ROOT_ID ? &root : (struct node *)(uintptr_t)id;
}

uint64_t node_id(const struct node *node)
{
    return node == &root ? FUSE_ROOT_ID : (uint64_t)(uintptr_t)node;
}

void names_lock(void)
{
    pthread_rwlock_rdlock(&names);
}

void names_unlock(void)
{
    pthread_rwlock_unlock(&names);
}

/* Writes a path; returns its bytes, PATH_MAX and more if there is no room. */
static size_t write_path(const struct node *node, char path[PATH_MAX])
{
    if (node == &root)
        return (size_t)snprintf(path, PATH_MAX, ".");
    if (node->fd != NAMED)
        return (size_t)snprintf(path, PATH_MAX, "/proc/self/fd/%d", node->fd);
    size_t bytes = write_path(node->parent, path);
    if (bytes >= PATH_MAX)
        return bytes;
    return bytes + (size_t)snprintf(path + bytes, PATH_MAX - bytes, "/%s", node->name);
}

bool path_of(const struct node *node, const char *name, char path[PATH_MAX])
{
    struct node child = {.parent = (struct node *)node, .name = (char *)name, .fd = NAMED};
    return write_path(name != NULL ? &child : node, path) < PATH_MAX;
}

int flags_of(const struct node *node)
{
    return node->fd == NAMED ? AT_SYMLINK_NOFOLLOW : 0;
}

/* The pointer of a chain that leads to the node of a name, or the NULL at the chain's end. */
static struct node **link_to(const struct node *parent, const char *name)
{
    uint64_t hash = node_id(parent) * 0x9e3779b97f4a7c15;
    for (const char *at = name; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3;
    struct node **link = &chains[(hash >> 32) % CHAINS];
    while (*link != NULL && ((*link)->parent != parent || strcmp((*link)->name, name) != 0))
        link = &(*link)->next;
    return link;
}

struct node *node_find(struct node *parent, const char *name)
{
    pthread_mutex_lock(&table);
    struct node **link = link_to(parent, name), *found = *link;
    if (found == NULL) {
        found = *link = needed(malloc(sizeof(*found)));
        *found = (struct node){.parent = parent, .name = needed(strdup(name)), .fd = NAMED};
        parent->users++;
    }
    found->users++;
    pthread_mutex_unlock(&table);
    return found;
}

void node_forget(struct node *node, uint64_t times)
{
    names_lock();
    pthread_mutex_lock(&table);
    while (node != &root && (node->users -= times) == 0) {
        struct node *parent = node->parent;
        if (node->fd == NAMED)
            *link_to(parent, node->name) = node->next;
        else if (node->fd >= 0)
            close(node->fd);
        free(node->name);
        free(node);
        node = parent;
        times = 1;
    }
    pthread_mutex_unlock(&table);
    names_unlock();
}

/* Before a name goes: a descriptor of the file, if the kernel has it. */
static int hold(const struct node *node, const char *path)
{
    return node != NULL ? open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
}

/* After the call that takes a name, with its result, which is returned. */
static int let_go(struct node **link, int held, int rc)
{
    if (rc == 0 && *link != NULL) {
        (*link)->fd = held;
        *link = (*link)->next;
    } else if (held >= 0) {
        close(held);
    }
    return rc;
}

int node_remove(struct node *parent, const char *name, bool directory)
{
    char path[PATH_MAX];
    int rc = -ENAMETOOLONG;
    pthread_rwlock_wrlock(&names);
    pthread_mutex_lock(&table);
    if (path_of(parent, name, path)) {
        struct node **link = link_to(parent, name);
        int held = hold(*link, path);
        rc = (directory ? rmdir(path) : unlink(path)) == 0 ? 0 : -errno;
        rc = let_go(link, held, rc);
    }
    pthread_mutex_unlock(&table);
    pthread_rwlock_unlock(&names);
    return rc;
}

static void move(struct node **link, struct node *to, const char *name)
{
    struct node *node = *link;
    *link = node->next;
    node->parent->users--; /* not the last: the kernel has the directory */
    to->users++;
    free(node->name);
    node->name = needed(strdup(name));
    node->parent = to;
    link = link_to(to, name);
    node->next = *link;
    *link = node;
}

int node_rename(struct node *from, const char *name, struct node *to, const char *new_name)
{
    char path[PATH_MAX], new_path[PATH_MAX];
    int rc = -ENAMETOOLONG;
    pthread_rwlock_wrlock(&names);
    pthread_mutex_lock(&table);
    if (path_of(from, name, path) && path_of(to, new_name, new_path)) {
        struct node **target = link_to(to, new_name);
        int held = hold(*target, new_path);
        rc = rename(path, new_path) == 0 ? 0 : -errno;
        rc = let_go(target, held, rc);
        struct node **link = link_to(from, name);
        if (rc == 0 && *link != NULL)
            move(link, to, new_name);
    }
    pthread_mutex_unlock(&table);
    pthread_rwlock_unlock(&names);
    return rc;
}

bool node_unchanged(struct node *node, const struct stat *now)
{
    pthread_mutex_lock(&table);
    bool same = memcmp(&node->seen, &now->st_mtim, sizeof(node->seen)) == 0 &&
                node->seen_bytes == now->st_size;
    node->seen = now->st_mtim;
    node->seen_bytes = now->st_size;
    pthread_mutex_unlock(&table);
    return same;
}
