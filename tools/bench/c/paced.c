/*
 * Reads files whole at a pace, in the order of a list, and prints how long a read takes: the median
 * and the 99th percentile in nanoseconds, of opening, reading and closing. Ordinary system calls,
 * no use of FanStore.
 *
 *     paced LIST FOLDER FILES_PER_S ROUNDS
 *
 * LIST has a name on each line. The first round is not counted. After a late read, the pace is not
 * made up for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

enum { FILES_MAX = 1 << 16, BUFFER_BYTES = 1 << 20 };

static char *paths[FILES_MAX];
static unsigned file_count;

static void fail(const char *what)
{
    fprintf(stderr, "paced: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void read_list(const char *list, const char *folder)
{
    char line[4096], path[8192];
    FILE *stream = fopen(list, "re");
    if (stream == NULL)
        fail(list);
    while (file_count < FILES_MAX && fgets(line, sizeof(line), stream) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        snprintf(path, sizeof(path), "%s/%s", folder, line);
        if ((paths[file_count++] = strdup(path)) == NULL)
            fail("strdup");
    }
    fclose(stream);
    if (file_count == 0)
        fail(list);
}

static double read_whole(const char *path, char *buffer)
{
    uint64_t start_ns = now_ns();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, buffer, BUFFER_BYTES) <= 0)
        fail(path);
    close(fd);
    return (double)(now_ns() - start_ns);
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000),
                          .tv_nsec = (long)(at_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 5 || atoi(argv[3]) < 1 || atoi(argv[4]) < 1) {
        fprintf(stderr, "usage: paced LIST FOLDER FILES_PER_S ROUNDS\n");
        return 2;
    }
    read_list(argv[1], argv[2]);
    uint64_t step_ns = 1000000000u / (unsigned)atoi(argv[3]);
    unsigned rounds = (unsigned)atoi(argv[4]);
    size_t counted = (size_t)rounds * file_count;
    double *took_ns = calloc(counted, sizeof(*took_ns));
    char *buffer = malloc(BUFFER_BYTES);
    if (took_ns == NULL || buffer == NULL)
        fail("malloc");
    memset(buffer, 0, BUFFER_BYTES);
    uint64_t due_ns = now_ns();
    for (size_t i = 0; i < counted + file_count; i++) {
        double ns = read_whole(paths[i % file_count], buffer);
        if (i >= file_count)
            took_ns[i - file_count] = ns;
        due_ns = due_ns + step_ns > now_ns() ? due_ns + step_ns : now_ns();
        sleep_until(due_ns);
    }
    qsort(took_ns, counted, sizeof(*took_ns), compare);
    printf("%.0f %.0f\n", took_ns[counted / 2], took_ns[counted - 1 - counted / 100]);
    return 0;
}
