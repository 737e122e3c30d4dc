#include "name_sort.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "room.h"

/* The part of a run of sorted names that is not merged yet. */
struct run {
    const char *at, *end;
};

void fan_name_sort_init(struct fan_name_sort *sort, int dir_fd, size_t run_bytes)
{
    *sort = (struct fan_name_sort){.run_bytes = run_bytes, .dir_fd = dir_fd, .fd = -1};
}

void fan_name_sort_fini(struct fan_name_sort *sort)
{
    free(sort->text);
    free(sort->run_ends);
    if (sort->fd >= 0)
        close(sort->fd);
}

/* Compares as strcmp does: NULs end the names, so a prefix comes first. */
static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns the names in memory, sorted, in an array that the caller frees; NULL if there is no
 * memory. */
static const char **sorted(const struct fan_name_sort *sort, size_t *count)
{
    const char *end = sort->text + sort->used;
    *count = 0;
    for (const char *at = sort->text; at < end; at += strlen(at) + 1)
        ++*count;
    const char **names = malloc((*count + 1) * sizeof(*names));
    size_t i = 0;
    if (names == NULL)
        return NULL;
    for (const char *at = sort->text; at < end; at += strlen(at) + 1)
        names[i++] = at;
    if (i > 1)
        qsort(names, i, sizeof(*names), by_name);
    return names;
}

static int write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        bytes += done;
        n -= (size_t)done;
    }
    return 0;
}

/* Writes the names in memory to the file as another run. */
static int spill(struct fan_name_sort *sort)
{
    size_t count, at = 0;
    uint64_t *ends = realloc(sort->run_ends, (sort->run_count + 1) * sizeof(*sort->run_ends));
    if (ends == NULL)
        return -ENOMEM;
    sort->run_ends = ends;
    if (sort->fd < 0 && (sort->fd = fan_room_file(sort->dir_fd)) < 0)
        return sort->fd;
    const char **names = sorted(sort, &count);
    char *text = malloc(sort->used);
    int rc = names != NULL && text != NULL ? 0 : -ENOMEM;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        size_t bytes = strlen(names[i]) + 1;
        memcpy(text + at, names[i], bytes);
        at += bytes;
    }
    if (rc == 0)
        rc = write_all(sort->fd, text, at);
    free(text);
    free(names);
    ends[sort->run_count] = (sort->run_count > 0 ? ends[sort->run_count - 1] : 0) + at;
    sort->run_count += rc == 0;
    sort->used = 0;
    return rc;
}

int fan_name_sort_add(struct fan_name_sort *sort, const char *name)
{
    size_t bytes = strlen(name) + 1;
    if (sort->dir_fd >= 0 && sort->used > 0 && sort->used + bytes > sort->run_bytes) {
        int rc = spill(sort);
        if (rc != 0)
            return rc;
    }
    if (sort->used + bytes > sort->room) {
        size_t room = sort->room * 2 > sort->used + bytes ? sort->room * 2 : 4096;
        char *text = realloc(sort->text, room);
        if (text == NULL)
            return -ENOMEM;
        sort->text = text;
        sort->room = room;
    }
    memcpy(sort->text + sort->used, name, bytes);
    sort->used += bytes;
    return 0;
}

/* Moves the run at `at` down in a heap whose first run has the smallest name. */
static void sink(struct run *heap, size_t count, size_t at)
{
    struct run moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && strcmp(heap[child + 1].at, heap[child].at) < 0)
            child++;
        if (strcmp(moved.at, heap[child].at) <= 0)
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static int merge(struct run *heap, size_t count, fan_name_taker *take, void *context)
{
    int rc = 0;
    for (size_t at = count; at-- > 0;)
        sink(heap, count, at);
    while (rc == 0 && count > 0) {
        rc = take(context, heap[0].at);
        heap[0].at += strlen(heap[0].at) + 1;
        if (heap[0].at == heap[0].end)
            heap[0] = heap[--count];
        if (count > 0)
            sink(heap, count, 0);
    }
    return rc;
}

static int merge_file(struct fan_name_sort *sort, fan_name_taker *take, void *context)
{
    size_t bytes = sort->run_ends[sort->run_count - 1];
    struct run *heap = calloc(sort->run_count, sizeof(*heap));
    if (heap == NULL)
        return -ENOMEM;
    const char *text = mmap(NULL, bytes, PROT_READ, MAP_SHARED, sort->fd, 0);
    if (text == MAP_FAILED) {
        free(heap);
        return -errno;
    }
    for (size_t i = 0; i < sort->run_count; i++)
        heap[i] =
            (struct run){text + (i > 0 ? sort->run_ends[i - 1] : 0), text + sort->run_ends[i]};
    int rc = merge(heap, sort->run_count, take, context);
    munmap((void *)text, bytes);
    free(heap);
    return rc;
}

int fan_name_sort_each(struct fan_name_sort *sort, fan_name_taker *take, void *context)
{
    if (sort->run_count > 0) {
        int rc = sort->used > 0 ? spill(sort) : 0;
        return rc != 0 ? rc : merge_file(sort, take, context);
    }
    size_t count;
    int rc = 0;
    const char **names = sorted(sort, &count);
    if (names == NULL)
        return -ENOMEM;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = take(context, names[i]);
    free(names);
    return rc;
}
