/* Measures name look-ups in random order over all files of a dataset of make_index.py.
 *
 *     names DIR FILES PER_DIRECTORY COUNT
 *
 * Prints nanoseconds of processor time for each stat, stat of a missing name, open and close, and
 * name that readdir returns. The files are chosen at random, but equally in each run. Compile with
 * -D_GNU_SOURCE. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct shape {
    const char *top;
    uint64_t files;
    uint64_t per_directory;
};

/* Returns a random file: splitmix64 of the number. */
static uint64_t drawn(uint64_t number, uint64_t files)
{
    uint64_t x = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % files;
}

static void put_path(const struct shape *shape, uint64_t file, const char *form, char *path)
{
    snprintf(path, PATH_BYTES, "%s/dir-%08" PRIu64 "/", shape->top, file / shape->per_directory);
    size_t used = 0;
    while (path[used] != '\0')
        used++;
    snprintf(path + used, PATH_BYTES - used, form, file);
}

static int look(const char *path)
{
    struct stat found;
    return stat(path, &found);
}

static int open_and_close(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -1 : close(fd);
}

/* Returns nanoseconds per call, without the time to make the path. */
static double measure(const struct shape *shape, uint64_t count, const char *form,
                      int (*call)(const char *path), int expected)
{
    char path[PATH_BYTES];
    uint64_t spent_ns[2];
    for (unsigned round = 0; round < 2; round++) {
        uint64_t start_ns = now_ns();
        for (uint64_t i = 0; i < count; i++) {
            put_path(shape, drawn(i, shape->files), form, path);
            if (round == 1 && call(path) != expected) {
                perror(path);
                exit(1);
            }
        }
        spent_ns[round] = now_ns() - start_ns;
    }
    return ((double)spent_ns[1] - (double)spent_ns[0]) / (double)count;
}

static double list(const struct shape *shape, uint64_t count)
{
    uint64_t names = 0, start_ns = now_ns();
    for (uint64_t i = 0; names < count; i++) {
        char path[PATH_BYTES];
        uint64_t directory = drawn(i, shape->files) / shape->per_directory;
        snprintf(path, sizeof(path), "%s/dir-%08" PRIu64, shape->top, directory);
        DIR *stream = opendir(path);
        if (stream == NULL) {
            perror(path);
            exit(1);
        }
        while (readdir(stream) != NULL)
            names++;
        closedir(stream);
    }
    return (double)(now_ns() - start_ns) / (double)names;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: names DIR FILES PER_DIRECTORY COUNT\n");
        return 2;
    }
    const struct shape shape = {argv[1], strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10)};
    uint64_t count = strtoull(argv[4], NULL, 10);
    measure(&shape, count, "file-%08" PRIu64 ".bin", look, 0); /* loads pages of the index */
    printf("stat %.0f miss %.0f open+close %.0f readdir %.0f\n",
           measure(&shape, count, "file-%08" PRIu64 ".bin", look, 0),
           measure(&shape, count, "none-%08" PRIu64 ".bin", look, -1),
           measure(&shape, count, "file-%08" PRIu64 ".bin", open_and_close, 0),
           list(&shape, count));
    return 0;
}
