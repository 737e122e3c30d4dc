/*
 * Reads files whole at a pace, in the order of a list, and prints how long a read takes: the median
 * and the 99th percentile in nanoseconds.
 *
 *     paced LIST FOLDER FILES_PER_S ROUNDS
 *
 * LIST has a name on each line. The first round is not counted. After a late read, the pace is not
 * made up for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "paths.h"
#include "whole.h"

static void read_list(struct list *files, const char *path, const char *folder)
{
    char line[PATH_BYTES];
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        fail(path);
    while (fgets(line, sizeof(line), stream) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        add_path(files, folder, "/", line);
    }
    fclose(stream);
    if (files->count == 0)
        fail(path);
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000),
                          .tv_nsec = (long)(at_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

int main(int argc, char **argv)
{
    struct list files = {0};
    if (argc != 5 || atoi(argv[3]) < 1 || atoi(argv[4]) < 1) {
        fprintf(stderr, "usage: paced LIST FOLDER FILES_PER_S ROUNDS\n");
        return 2;
    }
    read_list(&files, argv[1], argv[2]);
    uint64_t step_ns = 1000000000u / (unsigned)atoi(argv[3]);
    size_t counted = (size_t)atoi(argv[4]) * files.count;
    double *took_ns = allocate(counted * sizeof(*took_ns));
    char *buffer = allocate(FILE_BYTES_MAX);
    uint64_t due_ns = now_ns();
    for (size_t i = 0; i < counted + files.count; i++) {
        double ns = read_whole(files.paths[i % files.count], buffer);
        if (i >= files.count)
            took_ns[i - files.count] = ns;
        due_ns = due_ns + step_ns > now_ns() ? due_ns + step_ns : now_ns();
        sleep_until(due_ns);
    }
    print_durations(took_ns, counted);
    puts("");
    return 0;
}
