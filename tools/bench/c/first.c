/* Times the first open of a process, and the forks after that. usage: first PATH THREADS LIMIT */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

enum { FORKS = 15 };

static void *idle(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static int compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

static uint64_t time_of_open(const char *path)
{
    uint64_t start = now_ns();
    int fd = open(path, O_RDONLY);
    uint64_t end = now_ns();
    if (fd < 0)
        exit(2);
    close(fd);
    return end - start;
}

static uint64_t time_of_fork(void)
{
    uint64_t times[FORKS];
    for (int i = 0; i < FORKS; i++) {
        uint64_t start = now_ns();
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        times[i] = now_ns() - start;
        if (child < 0 || waitpid(child, NULL, 0) != child)
            exit(2);
    }
    qsort(times, FORKS, sizeof(times[0]), compare);
    return times[FORKS / 2];
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    pthread_t thread;
    if (argc != 4 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    limit.rlim_cur = (rlim_t)atol(argv[3]);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 3;
    for (int i = atoi(argv[2]); i > 0; i--) {
        if (pthread_create(&thread, NULL, idle, NULL) != 0)
            return 2;
    }
    uint64_t opened = time_of_open(argv[1]), forked = time_of_fork();
    printf("%llu %llu\n", (unsigned long long)opened, (unsigned long long)forked);
    return 0;
}
