#include "paths.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS_MAX = 24 };

void fail(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(1);
}

void add_path(struct list *list, const char *folder, const char *separator, const char *name)
{
    char path[PATH_BYTES];
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 64;
        list->paths = realloc(list->paths, list->capacity * sizeof(*list->paths));
    }
    snprintf(path, sizeof(path), "%s%s%s", folder, separator, name);
    list->paths[list->count++] = strdup(path);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void list_folder(struct list *list, const char *folder)
{
    DIR *directory = opendir(folder);
    struct dirent *entry;
    size_t before = list->count;
    if (directory == NULL)
        fail(folder);
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            add_path(list, folder, "/", entry->d_name);
    closedir(directory);
    if (list->count > before) /* already sorted; sorting all again took minutes for a million */
        qsort(list->paths + before, list->count - before, sizeof(*list->paths), compare);
}

struct kind *find_kind(const char *top, const char *name)
{
    static struct kind kinds[KINDS_MAX];
    struct kind *kind = kinds;
    char folder[PATH_BYTES];
    while (kind->name[0] != '\0' && strcmp(kind->name, name) != 0)
        kind++;
    if (kind->name[0] != '\0')
        return kind;
    if (kind == kinds + KINDS_MAX - 1) {
        errno = ENOSPC;
        fail("kinds of files");
    }
    snprintf(kind->name, sizeof(kind->name), "%s", name);
    snprintf(folder, sizeof(folder), "%s/%s", top, name);
    list_folder(&kind->folders, folder);
    for (size_t i = 0; i < kind->folders.count; i++)
        list_folder(&kind->files, kind->folders.paths[i]);
    for (size_t i = 0; i < kind->files.count; i++)
        add_path(&kind->missing, kind->files.paths[i], "", ".not-there");
    return kind;
}

uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

uint32_t *random_order(size_t count, uint64_t *state)
{
    uint32_t *order = malloc((count + 1) * sizeof(*order));
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        size_t j = next_random(state) % i;
        uint32_t last = order[i - 1];
        order[i - 1] = order[j];
        order[j] = last;
    }
    return order;
}

char **shuffled(const struct list *list, uint64_t *state)
{
    size_t bytes = (list->count + 1) * sizeof(char *);
    for (size_t i = 0; i < list->count; i++)
        bytes += strlen(list->paths[i]) + 1;
    uint32_t *order = random_order(list->count, state);
    char **paths = malloc(bytes), *at = (char *)(paths + list->count + 1);
    for (size_t i = 0; i < list->count; i++) {
        paths[i] = at;
        at = stpcpy(at, list->paths[order[i]]) + 1;
    }
    free(order);
    return paths;
}
