#include "code_tree.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "../../common/sys.h"
#include "../machine/spelling.h"
#include "../paths/linked.h"
#include "code_dirs.h"
#include "elf.h"

/* LOOKS_MAX: how many look-ups a tree may take, because a hostile file could cause very many. */
enum { LOOKS_MAX = 20000, TEXT_BYTES = 1 << 19, LIBRARY_PATH_BYTES = 1 << 16,
       RPATH_BYTES = 1 << 15 };

struct fan_code_tree {
    const char *library_path;
    bool replaced;
    unsigned count;
    unsigned looks;
    size_t used;
    struct fan_code_item items[FAN_CODE_ITEMS_MAX];
    struct fan_elf elf; /* the file that is being examined */
    struct fan_code_dirs dirs;
    struct fan_target target;
    struct fan_target other;
    struct fan_code_room room;
    char name[PATH_MAX];
    char rpath[RPATH_BYTES]; /* RPATH or RUNPATH, as in the file */
    char joined[PATH_MAX];
    char path[PATH_MAX];
    char place[PATH_MAX];
    char library[LIBRARY_PATH_BYTES];
    char texts[TEXT_BYTES];
};

struct fan_code_tree *fan_code_begin(const char *library_path, bool replaced)
{
    struct fan_code_tree *tree = fan_sys_memory(sizeof(*tree));
    if (tree == NULL)
        return NULL;
    tree->library_path = library_path;
    tree->replaced = replaced;
    return tree;
}

void fan_code_end(struct fan_code_tree *tree)
{
    fan_sys_munmap(tree, sizeof(*tree));
}

unsigned fan_code_count(const struct fan_code_tree *tree)
{
    return tree->count;
}

const struct fan_code_item *fan_code_item(const struct fan_code_tree *tree, unsigned number)
{
    return &tree->items[number];
}

const char *fan_code_outside(const struct fan_code_tree *tree)
{
    return tree->target.path;
}

struct fan_code_room *fan_code_room(struct fan_code_tree *tree)
{
    return &tree->room;
}

const char *fan_code_refused(const struct fan_code_tree *tree)
{
    return tree->place;
}

static const char *keep(struct fan_code_tree *tree, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (bytes > TEXT_BYTES - tree->used)
        return NULL;
    char *to = tree->texts + tree->used;
    memcpy(to, text, bytes);
    tree->used += bytes;
    return to;
}

static int append(struct fan_code_tree *tree, struct fan_code_item item)
{
    item.path = keep(tree, item.path);
    bool placed = item.place != NULL;
    item.place = placed ? keep(tree, item.place) : NULL;
    if (tree->count >= FAN_CODE_ITEMS_MAX || item.path == NULL || (placed && item.place == NULL))
        return -ENOMEM;
    tree->items[tree->count] = item;
    return (int)tree->count++;
}

static int find_item(const struct fan_code_tree *tree, const char *place)
{
    for (unsigned i = 0; i < tree->count; i++) {
        if (tree->items[i].place != NULL && strcmp(tree->items[i].place, place) == 0)
            return (int)i;
    }
    return -1;
}

/* Returns whether the text of tree->path leads to another input than the path itself: behind a
 * link, ".." is not the component before the link. The place made from the text belongs to that
 * other input. */
static bool is_others(struct fan_code_tree *tree)
{
    const struct fan_target *target = &tree->target;
    struct fan_target *other = &tree->other;
    char *plain = tree->room.own;
    if (!fan_has_dot_dot(tree->path) || fan_normalise(tree->path, plain, PATH_MAX) != 0 ||
        !fan_locate(AT_FDCWD, plain, FAN_DEFER, other) || other->where != FAN_INPUT)
        return false;
    return target->where != FAN_INPUT || target->dataset != other->dataset ||
           target->id != other->id;
}

/* Finds the place of a file. Sets *foreign if the linker will look at another place. */
static int find_place(struct fan_code_tree *tree, const char *path, bool *foreign)
{
    int rc = fan_absolute_path(AT_FDCWD, path, tree->path, sizeof(tree->path));
    bool others = rc == 0 && is_others(tree);
    int64_t length = others    ? -EXDEV
                     : rc == 0 ? fan_code_place_of(tree->path, tree->place, sizeof(tree->place))
                               : rc;
    *foreign = *foreign || others;
    if (length == -EXDEV) { /* a link outside, or "..", led to the mount */
        length = fan_target_path(&tree->target, tree->path, sizeof(tree->path));
        if (length >= 0)
            length = fan_code_place_of(tree->path, tree->place, sizeof(tree->place));
    }
    return length < 0 ? (int)length : 0;
}

static int add(struct fan_code_tree *tree, const char *path, int parent, bool foreign)
{
    struct fan_target *target = &tree->target;
    if (!fan_locate(AT_FDCWD, path, FAN_DEFER | FAN_THROUGH, target) && target->where != FAN_TREE)
        return -EXDEV;
    int rc = find_place(tree, path, &foreign);
    if (rc != 0)
        return rc;
    int known = find_item(tree, tree->place);
    if (known >= 0)
        return known;
    rc = target->where == FAN_MISSING ? -target->error
                                      : fan_code_make(target, tree->place, &tree->room);
    if (rc == -ENOENT) /* an output that no longer exists */
        FAN_SYS(unlinkat, AT_FDCWD, tree->place, 0);
    if (rc != 0)
        return rc;
    return append(tree, (struct fan_code_item){tree->path, tree->place, NULL, parent, foreign});
}

int fan_code_add(struct fan_code_tree *tree, const char *path)
{
    return add(tree, path, -1, false);
}

/* Reads the parts of item `number` that the linker uses. Returns a descriptor, which the caller
 * closes, or -errno. */
static int load(struct fan_code_tree *tree, int number)
{
    struct fan_code_item *item = &tree->items[number];
    const char *real = item->place != NULL ? item->place : item->path;
    int fd = fan_sys_openat(AT_FDCWD, real, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    int rc = fd >= 0 ? fan_elf_read(&tree->elf, fd) : fd;
    if (rc >= 0 && tree->elf.rpath != FAN_ELF_NONE && item->rpath == NULL &&
        fan_elf_string(&tree->elf, tree->elf.rpath, tree->rpath, sizeof(tree->rpath)) > 0)
        item->rpath = keep(tree, tree->rpath);
    if (rc < 0 && fd >= 0)
        fan_sys_close(fd);
    return rc < 0 ? rc : fd;
}

int fan_code_add_known(struct fan_code_tree *tree, const char *path, const char *place, int parent)
{
    int number = append(tree, (struct fan_code_item){path, place, NULL, parent, false});
    int fd = number >= 0 ? load(tree, number) : -1;
    if (fd >= 0)
        fan_sys_close(fd);
    return number;
}

/* Lists the directories in which the linker looks for the libraries of item `number`, in its
 * order. */
static void list_dirs(struct fan_code_tree *tree, int number)
{
    struct fan_code_dirs *dirs = &tree->dirs;
    const struct fan_elf *elf = &tree->elf;
    dirs->count = 0;
    dirs->used = 0;
    dirs->in_mount = false;
    for (int i = number; i >= 0 && elf->runpath == FAN_ELF_NONE; i = tree->items[i].parent) {
        const struct fan_code_item *item = &tree->items[i];
        if (item->rpath != NULL)
            fan_code_dirs_add(dirs, item->rpath, item->path, item->place == NULL);
    }
    if (tree->library_path != NULL)
        fan_code_dirs_add(dirs, tree->library_path, NULL, !tree->replaced);
    if (elf->runpath != FAN_ELF_NONE &&
        fan_elf_string(elf, elf->runpath, tree->rpath, sizeof(tree->rpath)) > 0)
        fan_code_dirs_add(dirs, tree->rpath, tree->items[number].path,
                          tree->items[number].place == NULL);
}

/* Looks for the library `name` in those directories. */
static int look(struct fan_code_tree *tree, int number, const char *name)
{
    for (unsigned i = 0; i < tree->dirs.count; i++) {
        const struct fan_code_dir *dir = &tree->dirs.dirs[i];
        if (++tree->looks > LOOKS_MAX)
            return -ENOENT;
        if (!fan_join(tree->joined, sizeof(tree->joined), dir->path, strlen(dir->path), name))
            continue;
        int found = add(tree, tree->joined, number, dir->foreign);
        if (found >= 0)
            return found;
        if (found == -EXDEV && FAN_SYS(faccessat, AT_FDCWD, tree->target.path, F_OK) == 0)
            return -ENOENT;
    }
    return -ENOENT;
}

static void add_needed(struct fan_code_tree *tree, int number)
{
    int fd = load(tree, number);
    if (fd < 0)
        return;
    list_dirs(tree, number);
    for (unsigned i = 0; i < tree->elf.needed_count && tree->dirs.in_mount; i++) {
        int64_t length = fan_elf_string(&tree->elf, tree->elf.needed[i], tree->name,
                                        sizeof(tree->name));
        if (length > 0 && strchr(tree->name, '/') == NULL)
            look(tree, number, tree->name);
    }
    fan_sys_close(fd);
}

void fan_code_close_over(struct fan_code_tree *tree, int number)
{
    for (int i = number; (unsigned)i < tree->count; i++)
        add_needed(tree, i);
}

int fan_code_find(struct fan_code_tree *tree, int number, const char *name)
{
    int fd = load(tree, number);
    if (fd < 0)
        return -ENOENT;
    list_dirs(tree, number);
    fan_sys_close(fd);
    return tree->dirs.in_mount ? look(tree, number, name) : -ENOENT;
}

/* Returns whether `directory` is one of a list. */
static bool is_listed(const char *list, const char *directory, size_t bytes)
{
    for (const char *at = list; at != NULL; at = strpbrk(at, ":;")) {
        at += *at == ':' || *at == ';';
        if (strncmp(at, directory, bytes) == 0 && strchr(":;", at[bytes]) != NULL)
            return true;
    }
    return false;
}

const char *fan_code_library_path(struct fan_code_tree *tree, const char *old)
{
    char *to = tree->library;
    const size_t capacity = sizeof(tree->library);
    int64_t length = fan_code_dirs_replace(old, to, capacity, &tree->target, tree->place);
    for (unsigned i = 0; length >= 0 && i < tree->count; i++) {
        const struct fan_code_item *item = &tree->items[i];
        size_t bytes = item->foreign ? (size_t)(strrchr(item->place, '/') - item->place) : 0;
        if (bytes == 0 || is_listed(to, item->place, bytes))
            continue;
        if ((size_t)length + bytes + 2 > capacity)
            return NULL;
        if (length > 0)
            to[length++] = ':';
        memcpy(to + length, item->place, bytes);
        length += (int64_t)bytes;
        to[length] = '\0';
    }
    return length >= 0 ? to : NULL;
}
