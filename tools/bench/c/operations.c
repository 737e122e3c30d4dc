#include "operations.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Large blocks of malloc and Python begin 16 bytes behind the start of a page. */
enum { UNALIGNED_BYTES = 16 };

static size_t read_whole(const char *path, uint8_t *buffer)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        fail(path);
    if (st.st_size > FILE_BYTES_MAX || read(fd, buffer, (size_t)st.st_size) != st.st_size)
        fail(path);
    close(fd);
    return (size_t)st.st_size;
}

static uint64_t run_read(struct worker *worker, const char *path)
{
    read_whole(path, worker->buffer);
    return 1;
}

static uint64_t run_read16(struct worker *worker, const char *path)
{
    read_whole(path, worker->buffer + UNALIGNED_BYTES);
    return 1;
}

/* Reads a whole file, and adds up all its words, so that two sides can be compared. */
static uint64_t run_sum(struct worker *worker, const char *path)
{
    size_t bytes = read_whole(path, worker->buffer);
    uint64_t word, sum = bytes;
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        memcpy(&word, worker->buffer + at, 8);
        sum = sum * 3 + word;
    }
    worker->sum += sum;
    return 1;
}

static uint64_t run_pread(struct worker *worker, const char *path)
{
    uint64_t chance = next_random(&worker->random);
    int fd = worker->fds[chance % worker->fd_count];
    off_t at = (off_t)(chance / 64 % (worker->fd_bytes / PAGE_BYTES) * PAGE_BYTES);
    if (pread(fd, worker->buffer, PAGE_BYTES, at) != PAGE_BYTES)
        fail(path);
    return 1;
}

static uint64_t run_mmap(struct worker *worker, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        fail(path);
    volatile uint8_t *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        fail(path);
    for (off_t at = 0; at < st.st_size; at += PAGE_BYTES)
        worker->sum += map[at];
    munmap((void *)map, (size_t)st.st_size);
    close(fd);
    return 1;
}

static uint64_t run_fread(struct worker *worker, const char *path)
{
    FILE *file = fopen(path, "re");
    size_t bytes = 0, count;
    if (file == NULL)
        fail(path);
    while ((count = fread(worker->buffer + bytes, 1, FILE_BYTES_MAX - bytes, file)) > 0)
        bytes += count;
    if (ferror(file))
        fail(path);
    fclose(file);
    return 1;
}

static uint64_t run_stat(struct worker *worker, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        fail(path);
    worker->sum += (uint64_t)st.st_size;
    return 1;
}

static uint64_t run_missing(struct worker *worker, const char *path)
{
    struct stat st;
    (void)worker;
    if (stat(path, &st) == 0 || errno != ENOENT)
        fail(path);
    return 1;
}

static uint64_t run_access(struct worker *worker, const char *path)
{
    (void)worker;
    if (access(path, R_OK) != 0)
        fail(path);
    return 1;
}

static uint64_t run_open(struct worker *worker, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    (void)worker;
    if (fd < 0)
        fail(path);
    close(fd);
    return 1;
}

static uint64_t run_readdir(struct worker *worker, const char *path)
{
    uint64_t entries = 0;
    DIR *directory = opendir(path);
    (void)worker;
    if (directory == NULL)
        fail(path);
    while (readdir(directory) != NULL)
        entries++;
    closedir(directory);
    return entries;
}

static uint64_t run_walk(struct worker *worker, const char *path)
{
    uint64_t entries = 0;
    struct dirent *entry;
    struct stat st;
    char name[PATH_BYTES];
    size_t length = strlen(path);
    DIR *directory = opendir(path);
    if (directory == NULL || length + 258 > sizeof(name))
        fail(path);
    memcpy(name, path, length);
    name[length++] = '/';
    for (; (entry = readdir(directory)) != NULL; entries++) {
        strcpy(name + length, entry->d_name);
        if (lstat(name, &st) != 0)
            fail(name);
        worker->sum += (uint64_t)st.st_size;
    }
    closedir(directory);
    return entries;
}

static const struct operation operations[] = {
    {"read", ON_FILES, run_read, 8, 0},
    {"read16", ON_FILES, run_read16, 8, 0},
    {"sum", ON_FILES, run_sum, 1, 0},
    {"pread", ON_FILES, run_pread, 64, 1},
    {"mmap", ON_FILES, run_mmap, 1, 0},
    {"fread", ON_FILES, run_fread, 8, 0},
    {"stat", ON_FILES, run_stat, 64, 0},
    {"missing", ON_MISSING, run_missing, 64, 0},
    {"access", ON_FILES, run_access, 64, 0},
    {"open", ON_FILES, run_open, 32, 0},
    {"readdir", ON_FOLDERS, run_readdir, 1, 0},
    {"walk", ON_FOLDERS, run_walk, 1, 0},
};

const struct operation *find_operation(const char *name)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    return NULL;
}

void open_files(struct worker *worker, const struct list *files)
{
    struct stat st;
    worker->fd_bytes = FILE_BYTES_MAX;
    for (size_t i = 0; i < files->count && i < OPEN_FILES_MAX; i++) {
        int fd = open(files->paths[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) != 0 || st.st_size < PAGE_BYTES)
            fail(files->paths[i]);
        if ((size_t)st.st_size < worker->fd_bytes)
            worker->fd_bytes = (size_t)st.st_size;
        worker->fds[worker->fd_count++] = fd;
    }
}

void close_files(struct worker *worker)
{
    while (worker->fd_count > 0)
        close(worker->fds[--worker->fd_count]);
}
