/*
 * Reads cold bytes, with 16 or THREADS reads at a time, in a random order that is the same each
 * time. Ordinary system calls, no use of FanStore.
 *
 *     remote_cold pack FILE CHUNK_BYTES THREADS
 *         reads a file by pread; prints nanoseconds a chunk
 *     remote_cold files COLD_FOLDER THREADS WARM_FOLDER
 *         reads each file of COLD_FOLDER once, and beside that one file of WARM_FOLDER after the
 *         other; prints nanoseconds a cold file, and of the warm reads the median, the 99th
 *         percentile and the number
 *
 * The files are named file-00000, file-00001 and so on.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum { THREADS_MAX = 64, BUFFER_BYTES = 1 << 20, WARM_MAX = 1 << 20 };

static const char *source;
static int pack_fd = -1;
static size_t chunk_bytes;
static unsigned count;
static unsigned *order;
static atomic_uint next;
static atomic_bool done;

static void fail(const char *what)
{
    fprintf(stderr, "remote_cold: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *allocate(size_t bytes)
{
    void *room = malloc(bytes);
    if (room == NULL)
        fail("malloc");
    return room;
}

static void name_file(const char *folder, unsigned number, char path[4096])
{
    snprintf(path, 4096, "%s/file-%05u", folder, number);
}

static unsigned count_files(const char *folder)
{
    char path[4096];
    struct stat st;
    unsigned found = 0;
    while (name_file(folder, found, path), stat(path, &st) == 0)
        found++;
    if (found == 0)
        fail(folder);
    return found;
}

static void shuffle(void)
{
    unsigned seed = 1;
    order = allocate(count * sizeof(*order));
    for (unsigned i = 0; i < count; i++) {
        unsigned j = (unsigned)rand_r(&seed) % (i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

static void read_file(const char *folder, unsigned number, char *buffer)
{
    char path[4096];
    name_file(folder, number, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, buffer, BUFFER_BYTES) <= 0)
        fail(path);
    close(fd);
}

static void read_chunk(unsigned number, char *buffer)
{
    off_t offset = (off_t)number * (off_t)chunk_bytes;
    if (pread(pack_fd, buffer, chunk_bytes, offset) != (ssize_t)chunk_bytes)
        fail(source);
}

static void *read_cold(void *unused)
{
    char *buffer = allocate(BUFFER_BYTES);
    (void)unused;
    for (unsigned i; (i = atomic_fetch_add(&next, 1)) < count;) {
        if (pack_fd >= 0)
            read_chunk(order[i], buffer);
        else
            read_file(source, order[i], buffer);
    }
    free(buffer);
    return NULL;
}

/* Returns the nanoseconds in which `threads` threads read everything. */
static double read_all(unsigned threads)
{
    pthread_t ids[THREADS_MAX];
    double start_ns = (double)now_ns();
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, read_cold, NULL) != 0)
            fail("pthread_create");
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return (double)now_ns() - start_ns;
}

/* The durations of the warm reads. */
struct warm {
    const char *folder;
    unsigned files;
    unsigned reads;
    double *took_ns;
};

static void *read_warm(void *argument)
{
    struct warm *warm = argument;
    char *buffer = allocate(BUFFER_BYTES);
    while (!atomic_load(&done) && warm->reads < WARM_MAX) {
        double start_ns = (double)now_ns();
        read_file(warm->folder, warm->reads % warm->files, buffer);
        warm->took_ns[warm->reads++] = (double)now_ns() - start_ns;
    }
    free(buffer);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int read_files(unsigned threads, const char *warm_folder)
{
    struct warm warm = {.folder = warm_folder, .files = count_files(warm_folder)};
    pthread_t reader;
    warm.took_ns = allocate(WARM_MAX * sizeof(*warm.took_ns));
    if (pthread_create(&reader, NULL, read_warm, &warm) != 0)
        fail("pthread_create");
    double took_ns = read_all(threads);
    atomic_store(&done, true);
    pthread_join(reader, NULL);
    if (warm.reads == 0)
        fail("no warm read");
    qsort(warm.took_ns, warm.reads, sizeof(*warm.took_ns), compare);
    printf("%.0f %.0f %.0f %u\n", took_ns / count, warm.took_ns[warm.reads / 2],
           warm.took_ns[warm.reads - 1 - warm.reads / 100], warm.reads);
    return 0;
}

static int read_pack(unsigned threads)
{
    struct stat st;
    pack_fd = open(source, O_RDONLY | O_CLOEXEC);
    if (pack_fd < 0 || fstat(pack_fd, &st) != 0)
        fail(source);
    count = (unsigned)((size_t)st.st_size / chunk_bytes);
    shuffle();
    printf("%.0f\n", read_all(threads) / count);
    return 0;
}

int main(int argc, char **argv)
{
    bool is_pack = argc == 5 && strcmp(argv[1], "pack") == 0;
    unsigned threads = argc == 5 ? (unsigned)atoi(argv[is_pack ? 4 : 3]) : 0;
    chunk_bytes = is_pack ? (size_t)atol(argv[3]) : 0;
    if (threads < 1 || threads > THREADS_MAX || chunk_bytes > BUFFER_BYTES ||
        (is_pack && chunk_bytes == 0)) {
        fprintf(stderr, "usage: remote_cold pack FILE CHUNK_BYTES THREADS\n"
                        "       remote_cold files COLD_FOLDER THREADS WARM_FOLDER\n");
        return 2;
    }
    source = argv[2];
    if (is_pack)
        return read_pack(threads);
    count = count_files(source);
    shuffle();
    return read_files(threads, argv[4]);
}
