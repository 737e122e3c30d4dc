#include "whole.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "paths.h"

void *allocate(size_t bytes)
{
    void *room = malloc(bytes);
    if (room == NULL)
        fail("malloc");
    return memset(room, 0, bytes);
}

double read_whole(const char *path, char *buffer)
{
    struct stat st;
    uint64_t start_ns = now_ns();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size > FILE_BYTES_MAX)
        fail(path);
    if (read(fd, buffer, (size_t)st.st_size) != st.st_size)
        fail(path);
    close(fd);
    return (double)(now_ns() - start_ns);
}

double on_threads(unsigned threads, void *(*routine)(void *buffer))
{
    static char *buffers[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    for (unsigned i = 0; i < threads; i++)
        if (buffers[i] == NULL)
            buffers[i] = allocate(FILE_BYTES_MAX);
    uint64_t start_ns = now_ns();
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, routine, buffers[i]) != 0)
            fail("pthread_create");
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return (double)(now_ns() - start_ns);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void print_durations(double *took_ns, size_t count)
{
    qsort(took_ns, count, sizeof(*took_ns), compare);
    printf("%.0f %.0f", took_ns[count / 2], took_ns[count - 1 - count / 100]);
}
