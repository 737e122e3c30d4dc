/*
 * LZ4 alone: reads files, compresses them in blocks of 1 MiB, and writes them to one file.
 *
 *     lz4copy OUT THREADS <LIST        one path on each line
 *
 * It makes nothing else that a dataset needs: no checksums, no metadata, no order.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lz.h"
#include "paths.h"

enum { BLOCK_BYTES = 1 << 20, PACKED_BYTES = BLOCK_BYTES + BLOCK_BYTES / 200 + 64, THREADS_MAX = 64 };

static struct list list;
static size_t next_file;
static off_t out_end;
static int out = -1;
static int (*compress_default)(const char *, char *, int, int);

static void copy_file(const char *path, char *block, char *packed)
{
    ssize_t count;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail(path);
    while ((count = read(fd, block, BLOCK_BYTES)) > 0) {
        int bytes = compress_default(block, packed, (int)count, PACKED_BYTES);
        const char *from = bytes > 0 && bytes < count ? packed : block;
        size_t length = from == packed ? (size_t)bytes : (size_t)count;
        off_t at = __atomic_fetch_add(&out_end, (off_t)length, __ATOMIC_RELAXED);
        if (pwrite(out, from, length, at) != (ssize_t)length)
            fail("writing");
    }
    close(fd);
}

static void *work(void *argument)
{
    char *block = malloc(BLOCK_BYTES), *packed = malloc(PACKED_BYTES);
    size_t at;
    while ((at = __atomic_fetch_add(&next_file, 1, __ATOMIC_RELAXED)) < list.count)
        copy_file(list.paths[at], block, packed);
    free(block);
    free(packed);
    return argument;
}

static void read_list(void)
{
    char path[PATH_BYTES];
    while (scanf("%4095s", path) == 1) {
        if (list.count == list.capacity) {
            list.capacity = list.capacity * 2 + 64;
            list.paths = realloc(list.paths, list.capacity * sizeof(*list.paths));
        }
        list.paths[list.count++] = strdup(path);
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    int count = argc == 3 ? atoi(argv[2]) : 0;
    if (count < 1 || count > THREADS_MAX)
        return 2;
    *(void **)&compress_default = library_function("liblz4.so.1", "LZ4_compress_default");
    out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0)
        fail(argv[1]);
    read_list();
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            fail("pthread_create");
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
