#include "scan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "together.h"

/* The most entries that a thread takes at a time, and how many times each takes some if there are
 * fewer, so that all end at about the same time. */
enum { SHARE_MOST = 64, TIMES = 8 };

/* Examine the entries first to end - 1, `share` at a time; the target of a link goes to
 * targets[entry - first]. */
struct work {
    struct fan_scan *scan;
    uint64_t first, end, share;
    char **targets;
    _Atomic uint64_t next;
    atomic_int error;
};

/* The directory that a thread has open: the one of its last entry. */
struct place {
    bool is_open; /* whether an open was tried */
    uint64_t parent;
    int fd; /* a descriptor, or the -errno of the open */
};

/* Opens the directory `parent` unless it is open. A failure is an error of its entries. Returns 0
 * or -ENOMEM. */
static int go_to(const struct fan_scan *scan, uint64_t parent, struct place *place)
{
    if (place->is_open && place->parent == parent)
        return 0;
    if (place->fd >= 0)
        close(place->fd);
    *place = (struct place){true, parent, fan_scan_enter(scan, parent, O_PATH)};
    return place->fd == -ENOMEM ? -ENOMEM : 0;
}

static int look(const struct fan_scan *scan, struct fan_scan_entry *entry, int dir_fd, char *target)
{
    char name[NAME_MAX + 1];
    if (dir_fd < 0 || entry->name_bytes > NAME_MAX)
        return dir_fd < 0 ? dir_fd : -ENAMETOOLONG;
    memcpy(name, scan->names + entry->name_offset, entry->name_bytes);
    name[entry->name_bytes] = '\0';
    return fan_scan_look(dir_fd, name, entry, target);
}

static int examine_one(struct work *work, uint64_t id, struct place *place)
{
    struct fan_scan_entry *entry = &work->scan->entries[id];
    char target[FAN_TARGET_MAX_BYTES];
    int rc = go_to(work->scan, entry->parent, place);
    if (rc != 0)
        return rc;
    entry->error = -look(work->scan, entry, place->fd, target);
    if (entry->target_bytes == 0)
        return 0;
    char *kept = work->targets[id - work->first] = malloc(entry->target_bytes);
    if (kept == NULL)
        return -ENOMEM;
    memcpy(kept, target, entry->target_bytes);
    return 0;
}

static void *examine_some(void *argument)
{
    struct work *work = argument;
    struct place place = {.fd = -EBADF};
    int rc = 0;
    for (;;) {
        uint64_t at = atomic_fetch_add(&work->next, work->share), end = at + work->share;
        if (rc != 0 || at >= work->end)
            break;
        for (; rc == 0 && at < end && at < work->end; at++)
            rc = examine_one(work, at, &place);
    }
    if (rc != 0)
        atomic_store(&work->error, rc);
    if (place.fd >= 0)
        close(place.fd);
    return NULL;
}

/* Stores the link targets in the order of the entries, so that the result does not depend on the
 * threads. */
static int keep_targets(struct work *work)
{
    int rc = atomic_load(&work->error);
    for (uint64_t id = work->first; id < work->end; id++) {
        struct fan_scan_entry *entry = &work->scan->entries[id];
        char *target = work->targets[id - work->first];
        if (rc == 0 && target != NULL)
            rc = fan_scan_keep(work->scan, target, entry->target_bytes, &entry->target_offset);
        free(target);
    }
    return rc;
}

int fan_scan_examine(struct fan_scan *scan)
{
    struct work work = {.scan = scan, .first = scan->examined, .end = scan->entry_count};
    uint64_t count = work.end - work.first;
    if (count == 0)
        return 0;
    work.share = 1 + count / (FAN_TOGETHER_MOST * TIMES);
    if (work.share > SHARE_MOST)
        work.share = SHARE_MOST;
    work.targets = calloc(count, sizeof(*work.targets));
    if (work.targets == NULL)
        return -ENOMEM;
    atomic_init(&work.next, work.first);
    fan_together((count + work.share - 1) / work.share, examine_some, &work);
    int rc = keep_targets(&work);
    free(work.targets);
    scan->examined = work.end;
    return rc;
}
