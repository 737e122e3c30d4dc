#include "tree_entries.h"

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

int fan_tree_list(struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
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
