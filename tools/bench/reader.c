/*
 * One side of the comparison: does what a line of standard input asks, answers with one line.
 *
 *     reader DIR
 *     read SUB | stat SUB | open SUB | missing SUB | readdir SUB
 *     -> OPERATIONS NANOSECONDS SUM
 *
 * SUB is a folder of DIR whose folders hold the files. Each request goes through all files once, in
 * a fresh random permutation of a fixed seed; its list was made by the first request. SUM depends
 * on what was seen, so that two sides can be compared. Ordinary system calls, no use of FanStore.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4 << 20, PAGE_BYTES = 4096, SETS_MAX = 16, PATH_BYTES = 4096 };

struct list {
    char **paths;
    size_t count;
    size_t capacity;
};

struct set {
    char name[64];
    struct list folders;
    struct list files;
    struct list missing;
};

static const char *top;
static char *buffer;
static uint64_t random_state = 88172645463325252u;

static void fail(const char *what)
{
    fprintf(stderr, "reader: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Adds the path FOLDER SEPARATOR NAME. */
static void add(struct list *list, const char *folder, const char *separator, const char *name)
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

static void scan(struct list *list, const char *folder)
{
    DIR *directory = opendir(folder);
    struct dirent *entry;
    if (directory == NULL)
        fail(folder);
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            add(list, folder, "/", entry->d_name);
    closedir(directory);
    qsort(list->paths, list->count, sizeof(*list->paths), compare);
}

static struct set *find_set(const char *name)
{
    static struct set sets[SETS_MAX];
    struct set *set = sets;
    char folder[PATH_BYTES];
    while (set->name[0] != '\0' && strcmp(set->name, name) != 0)
        set++;
    if (set->name[0] != '\0')
        return set;
    snprintf(set->name, sizeof(set->name), "%s", name);
    snprintf(folder, sizeof(folder), "%s/%s", top, name);
    scan(&set->folders, folder);
    for (size_t i = 0; i < set->folders.count; i++)
        scan(&set->files, set->folders.paths[i]);
    for (size_t i = 0; i < set->files.count; i++)
        add(&set->missing, set->files.paths[i], "", ".not-there");
    return set;
}

static void shuffle(struct list *list)
{
    for (size_t i = list->count; i > 1; i--) {
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        size_t j = random_state % i;
        char *path = list->paths[i - 1];
        list->paths[i - 1] = list->paths[j];
        list->paths[j] = path;
    }
}

static uint64_t do_read(const char *path)
{
    struct stat st;
    uint64_t first, last;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        fail(path);
    if (st.st_size < 8 || read(fd, buffer, (size_t)st.st_size) != st.st_size)
        fail(path);
    close(fd);
    memcpy(&first, buffer, 8);
    memcpy(&last, buffer + st.st_size - 8, 8);
    return first + last * 3;
}

static uint64_t do_stat(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        fail(path);
    return (uint64_t)st.st_size + (uint64_t)st.st_mtim.tv_nsec;
}

static uint64_t do_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail(path);
    close(fd);
    return 1;
}

static uint64_t do_missing(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 || errno != ENOENT)
        fail(path);
    return 1;
}

/* The number of entries of a folder, "." and ".." among them. */
static uint64_t do_readdir(const char *path)
{
    uint64_t entries = 0;
    DIR *directory = opendir(path);
    if (directory == NULL)
        fail(path);
    while (readdir(directory) != NULL)
        entries++;
    closedir(directory);
    return entries;
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void measure(uint64_t (*operation)(const char *), struct list *list)
{
    uint64_t sum = 0;
    shuffle(list);
    uint64_t start = now_ns();
    for (size_t i = 0; i < list->count; i++)
        sum += operation(list->paths[i]);
    uint64_t elapsed = now_ns() - start;
    /* What a listing does is its entries. */
    size_t operations = operation == do_readdir ? sum : list->count;
    printf("%zu %llu %llu\n", operations, (unsigned long long)elapsed, (unsigned long long)sum);
    fflush(stdout);
}

static void answer(const char *what, struct set *set)
{
    if (strcmp(what, "read") == 0)
        measure(do_read, &set->files);
    else if (strcmp(what, "stat") == 0)
        measure(do_stat, &set->files);
    else if (strcmp(what, "open") == 0)
        measure(do_open, &set->files);
    else if (strcmp(what, "missing") == 0)
        measure(do_missing, &set->missing);
    else if (strcmp(what, "readdir") == 0)
        measure(do_readdir, &set->folders);
    else
        exit(2);
}

int main(int argc, char **argv)
{
    char what[32], name[64];
    if (argc != 2)
        return 2;
    top = argv[1];
    buffer = aligned_alloc(PAGE_BYTES, BUFFER_BYTES);
    memset(buffer, 1, BUFFER_BYTES);
    while (scanf("%31s %63s", what, name) == 2)
        answer(what, find_set(name));
    return 0;
}
