#include "entries.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../machine/spelling.h"
#include "../paths/output_tree.h"

enum { FIRST_BYTES = 64 << 10, READ_BYTES = 12 << 10 };

struct listed {
    const struct fan_index *index;
    uint64_t id, hash;
    struct fan_output_listing *listing;
};

static int grow(struct fan_output_listing *listing, size_t bytes)
{
    if (listing->bytes + bytes <= listing->room)
        return 0;
    size_t room = listing->room > 0 ? 2 * listing->room : FIRST_BYTES;
    char *text = fan_sys_memory(room);
    if (text == NULL)
        return -ENOMEM;
    if (listing->room > 0) {
        memcpy(text, listing->text, listing->bytes);
        fan_sys_munmap(listing->text, listing->room);
    }
    listing->text = text;
    listing->room = room;
    return 0;
}

static int add(const struct listed *listed, const struct dirent64 *entry)
{
    size_t bytes = strlen(entry->d_name);
    size_t whole = sizeof(struct fan_output_name) + (bytes + 7) / 8 * 8;
    struct fan_child child;
    if (fan_is_dot(entry->d_name, bytes) || fan_is_dot_dot(entry->d_name, bytes) ||
        fan_index_child(listed->index, listed->id, listed->hash, entry->d_name, bytes, &child) == 0)
        return 0;
    int rc = grow(listed->listing, whole);
    if (rc != 0)
        return rc;
    struct fan_output_name name = {
        .ino = fan_tree_inode(entry->d_ino), .type = entry->d_type, .name_bytes = (uint32_t)bytes};
    char *to = listed->listing->text + listed->listing->bytes;
    memset(to, 0, whole);
    memcpy(mempcpy(to, &name, sizeof(name)), entry->d_name, bytes);
    listed->listing->bytes += whole;
    return 0;
}

static int add_all(const struct listed *listed, int fd)
{
    struct buffer {
        char text[READ_BYTES];
    };
    FAN_OFF_STACK(struct buffer, buffer);
    long got, rc = 0;
    if (buffer == NULL)
        return -ENOMEM;
    while (rc == 0 && (got = FAN_SYS(getdents64, fd, buffer->text, sizeof(buffer->text))) != 0) {
        if (got < 0)
            return (int)got;
        for (long at = 0; rc == 0 && at < got;) {
            const struct dirent64 *entry = (const void *)(buffer->text + at);
            rc = add(listed, entry);
            at += entry->d_reclen;
        }
    }
    return (int)rc;
}

/* Takes a snapshot of the outputs in a directory of the dataset, from its counterpart in the output
 * tree. An entry with the name of an input is the counterpart of that input. */
static int list_tree(struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                     struct fan_output_listing *listing)
{
    struct listed listed = {.index = &dataset->index, .id = id, .listing = listing};
    FAN_OFF_STACK(struct fan_path, path);
    *listing = (struct fan_output_listing){0};
    int rc = path == NULL ? -ENOMEM
                          : fan_tree_counterpart(view, dataset, id, path->text, sizeof(path->text));
    if (rc == 0)
        rc = fan_index_path_hash(listed.index, id, &listed.hash);
    if (rc != 0)
        return rc;
    int fd = fan_sys_openat(AT_FDCWD, path->text, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    rc = add_all(&listed, fd);
    fan_sys_close(fd);
    if (rc != 0)
        fan_output_list_end(listing);
    return rc;
}

/* Lists the outputs in a directory of the dataset. Lists only the inputs if the outputs can no
 * longer be known (EIO: the node daemon, or the rank that keeps the names, is gone). */
static int list_beside(struct fan_entries *entries, struct fan_view *view, uint64_t id)
{
    if (!fan_tree_has_ranks())
        return list_tree(view, entries->dataset, id, &entries->outputs);
    FAN_OFF_STACK(struct fan_target_room, room);
    if (room == NULL)
        return -ENOMEM;
    char *path = room->path;
    int64_t bytes = fan_index_path(&entries->dataset->index, id, path, sizeof(room->path) - 1);
    if (bytes < 0)
        return -EIO;
    path[bytes] = '\0';
    int rc = fan_output_list(view, path, &entries->outputs);
    return rc == -ENOENT || rc == -EIO ? 0 : rc;
}

int fan_entries_of_input(struct fan_entries *entries, struct fan_view *view,
                         struct fan_dataset *dataset, uint64_t id)
{
    const struct fan_index *index = &dataset->index;
    const struct fan_record *here = fan_index_record(index, id);
    *entries = (struct fan_entries){.dataset = dataset};
    if (here == NULL || here->parent >= index->record_count)
        return -EIO;
    entries->own = fan_index_inode(index, id);
    entries->parent = fan_index_inode(index, here->parent);
    int rc = fan_index_children(index, id, &entries->first, &entries->count);
    if (rc != 0 || !fan_view_touched(view, id)) /* no output was ever made there */
        return rc;
    return list_beside(entries, view, id);
}

/* Returns the inode number of a directory of this mount, whose path is the first `bytes` bytes of
 * `path`; or -errno. */
static int64_t inode_of(const struct fan_view *view, const char *path, size_t bytes,
                        struct fan_target_room *room)
{
    struct fan_target *target = &room->target;
    if (view->prefix.bytes + bytes + 2 > sizeof(room->path))
        return -ENAMETOOLONG;
    char *end = mempcpy(room->path, view->prefix.text, view->prefix.bytes);
    if (bytes > 0)
        *end++ = '/';
    *(char *)mempcpy(end, path, bytes) = '\0';
    if (!fan_locate(AT_FDCWD, room->path, FAN_NOFOLLOW, target)) {
        struct stat st;
        bool own = target->where == FAN_TREE &&
                   FAN_SYS(newfstatat, target->dirfd, target->path, &st, AT_SYMLINK_NOFOLLOW) == 0;
        return own ? (int64_t)fan_tree_inode(st.st_ino) : -ENOENT;
    }
    if (target->where == FAN_INPUT)
        return (int64_t)fan_index_inode(&target->dataset->index, target->id);
    return target->where == FAN_OUTPUT ? (int64_t)target->attr.ino : -target->error;
}

int fan_entries_of_output(struct fan_entries *entries, struct fan_view *view, const char *path,
                          uint64_t own)
{
    const char *end = strrchr(path, '/');
    FAN_OFF_STACK(struct fan_target_room, room);
    if (room == NULL)
        return -ENOMEM;
    int64_t parent = inode_of(view, path, end != NULL ? (size_t)(end - path) : 0, room);
    *entries = (struct fan_entries){.own = own, .parent = parent < 0 ? own : (uint64_t)parent};
    return fan_output_list(view, path, &entries->outputs);
}

/* Checks that a name is one component of a path: a hostile name must not make a program that copies
 * the tree write outside its target. */
static int check_name(const struct fan_entry *entry)
{
    bool dots = (entry->name_bytes == 1 || entry->name_bytes == 2) &&
                memcmp(entry->name, "..", entry->name_bytes) == 0;
    bool sane = entry->name_bytes > 0 && !dots &&
                memchr(entry->name, '/', entry->name_bytes) == NULL &&
                memchr(entry->name, '\0', entry->name_bytes) == NULL;
    return sane ? 0 : -EIO;
}

static int input_at(const struct fan_entries *entries, uint64_t id, struct fan_entry *entry)
{
    const struct fan_index *index = &entries->dataset->index;
    const struct fan_record *record = fan_index_record(index, id);
    if (record == NULL)
        return -EIO;
    entry->inode = fan_index_inode(index, id);
    entry->type = IFTODT(record->mode);
    int rc = fan_index_name(index, record, &entry->name, &entry->name_bytes);
    return rc != 0 ? rc : check_name(entry);
}

static int output_at(struct fan_entries *entries, uint64_t number, struct fan_entry *entry)
{
    const struct fan_output_name *name;
    size_t next;
    if (number < entries->cursor_at)
        entries->cursor_at = entries->cursor = 0;
    for (;;) {
        name = fan_output_next(&entries->outputs, entries->cursor, &next);
        if (name == NULL)
            return entries->cursor == entries->outputs.bytes ? -ENOENT : -EIO;
        if (entries->cursor_at == number)
            break;
        entries->cursor_at++;
        entries->cursor = next;
    }
    entry->name = (const char *)(name + 1);
    entry->name_bytes = name->name_bytes;
    entry->inode = name->ino;
    entry->type = (unsigned char)name->type;
    return check_name(entry);
}

int fan_entries_at(struct fan_entries *entries, uint64_t position, struct fan_entry *entry)
{
    if (position < 2) {
        *entry = (struct fan_entry){.name = "..",
                                    .name_bytes = position + 1,
                                    .inode = position == 0 ? entries->own : entries->parent,
                                    .type = DT_DIR};
        return 0;
    }
    uint64_t number = position - 2;
    return number < entries->count
               ? input_at(entries, entries->first + number, entry)
               : output_at(entries, number - entries->count, entry);
}

void fan_entries_end(struct fan_entries *entries)
{
    fan_output_list_end(&entries->outputs);
}
