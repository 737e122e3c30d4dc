/*
 * Reads files of one folder whole, by several threads at once, and prints nanoseconds per file for
 * each round. Ordinary system calls, no use of FanStore.
 *
 *     remote_reader FOLDER THREADS ROUNDS
 *
 * The files are named 00000, 00001 and so on. The first round is not printed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64, BUFFER_BYTES = 16 << 20 };

static const char *folder;
static unsigned file_count;
static atomic_uint next_file;

static void fail(const char *what)
{
    fprintf(stderr, "remote_reader: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void name_file(unsigned number, char path[4096])
{
    snprintf(path, 4096, "%s/file-%05u", folder, number);
}

static void read_whole(unsigned number, char *buffer)
{
    char path[4096];
    struct stat st;
    name_file(number, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size > BUFFER_BYTES)
        fail(path);
    if (read(fd, buffer, (size_t)st.st_size) != st.st_size)
        fail(path);
    close(fd);
}

static void *read_files(void *unused)
{
    char *buffer = malloc(BUFFER_BYTES);
    (void)unused;
    if (buffer == NULL)
        fail("malloc");
    memset(buffer, 0, BUFFER_BYTES);
    for (unsigned i; (i = atomic_fetch_add(&next_file, 1)) < file_count;)
        read_whole(i, buffer);
    free(buffer);
    return NULL;
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double run_round(unsigned threads)
{
    pthread_t ids[THREADS_MAX];
    double start_ns = now_ns();
    atomic_store(&next_file, 0);
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, read_files, NULL) != 0)
            fail("pthread_create");
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return (now_ns() - start_ns) / file_count;
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc != 4 || atoi(argv[2]) < 1 || atoi(argv[2]) > THREADS_MAX) {
        fprintf(stderr, "usage: remote_reader FOLDER THREADS ROUNDS\n");
        return 2;
    }
    folder = argv[1];
    for (struct stat st; name_file(file_count, path), stat(path, &st) == 0;)
        file_count++;
    if (file_count == 0)
        fail(folder);
    for (int round = 0; round <= atoi(argv[3]); round++) {
        double ns = run_round((unsigned)atoi(argv[2]));
        if (round > 0)
            printf("%.0f\n", ns);
    }
    return 0;
}
