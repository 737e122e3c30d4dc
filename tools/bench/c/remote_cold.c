/*
 * Reads cold bytes, with 16 or THREADS reads at a time, in a random order that is the same each
 * time.
 *
 *     remote_cold pack FILE CHUNK_BYTES THREADS
 *         reads a file by pread; prints nanoseconds a chunk
 *     remote_cold files COLD_FOLDER THREADS WARM_FOLDER
 *         reads each file of COLD_FOLDER once, and beside that one file of WARM_FOLDER after the
 *         other; prints nanoseconds a cold file, and of the warm reads the median, the 99th
 *         percentile and the number
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paths.h"
#include "whole.h"

enum { WARM_MAX = 1 << 20 };

static const char *pack;
static int pack_fd;
static size_t chunk_bytes;
static struct list files;
static size_t count; /* of chunks, or of files */
static uint32_t *order;
static atomic_size_t next;
static atomic_bool done;

static void *read_chunks(void *buffer)
{
    for (size_t i; (i = atomic_fetch_add(&next, 1)) < count;) {
        off_t offset = (off_t)order[i] * (off_t)chunk_bytes;
        if (pread(pack_fd, buffer, chunk_bytes, offset) != (ssize_t)chunk_bytes)
            fail(pack);
    }
    return NULL;
}

static void *read_cold(void *buffer)
{
    for (size_t i; (i = atomic_fetch_add(&next, 1)) < count;)
        read_whole(files.paths[order[i]], buffer);
    return NULL;
}

/* Returns the nanoseconds a chunk or file, if all are read. */
static double read_all(unsigned threads, void *(*routine)(void *buffer))
{
    uint64_t state = 1;
    order = random_order(count, &state);
    return on_threads(threads, routine) / (double)count;
}

/* The durations of the warm reads. */
struct warm {
    struct list files;
    size_t reads;
    double *took_ns;
};

static void *read_warm(void *argument)
{
    struct warm *warm = argument;
    char *buffer = allocate(FILE_BYTES_MAX);
    for (; !atomic_load(&done) && warm->reads < WARM_MAX; warm->reads++)
        warm->took_ns[warm->reads] =
            read_whole(warm->files.paths[warm->reads % warm->files.count], buffer);
    free(buffer);
    return NULL;
}

static void read_files(const char *cold_folder, unsigned threads, const char *warm_folder)
{
    struct warm warm = {.took_ns = allocate(WARM_MAX * sizeof(*warm.took_ns))};
    pthread_t reader;
    list_folder(&files, cold_folder);
    list_folder(&warm.files, warm_folder);
    count = files.count;
    if (pthread_create(&reader, NULL, read_warm, &warm) != 0)
        fail("pthread_create");
    double cold_ns = read_all(threads, read_cold);
    atomic_store(&done, true);
    pthread_join(reader, NULL);
    if (warm.reads == 0)
        fail("no warm read");
    printf("%.0f ", cold_ns);
    print_durations(warm.took_ns, warm.reads);
    printf(" %zu\n", warm.reads);
}

static void read_pack(unsigned threads)
{
    struct stat st;
    pack_fd = open(pack, O_RDONLY | O_CLOEXEC);
    if (pack_fd < 0 || fstat(pack_fd, &st) != 0)
        fail(pack);
    count = (size_t)st.st_size / chunk_bytes;
    printf("%.0f\n", read_all(threads, read_chunks));
}

int main(int argc, char **argv)
{
    bool is_pack = argc == 5 && strcmp(argv[1], "pack") == 0;
    unsigned threads = argc == 5 ? (unsigned)atoi(argv[is_pack ? 4 : 3]) : 0;
    chunk_bytes = is_pack ? (size_t)atol(argv[3]) : 0;
    if (threads < 1 || threads > THREADS_MAX || chunk_bytes > FILE_BYTES_MAX ||
        (is_pack && chunk_bytes == 0)) {
        fprintf(stderr, "usage: remote_cold pack FILE CHUNK_BYTES THREADS\n"
                        "       remote_cold files COLD_FOLDER THREADS WARM_FOLDER\n");
        return 2;
    }
    pack = argv[2];
    if (is_pack)
        read_pack(threads);
    else
        read_files(argv[2], threads, argv[4]);
    return 0;
}
