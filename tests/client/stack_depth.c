/*
 * How much stack calls take: a line "NAME BYTES" for each. usage: stack_depth DIRECTORY, which has a
 * file "f" and a link "l" to it, and takes new files. Each call is made on a stack that was painted.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_BYTES = 64 << 10, PAINT = 0x5a };

static unsigned char stack[STACK_BYTES] __attribute__((aligned(64)));
static ucontext_t caller, callee;
static char file[PATH_MAX], link_to_it[PATH_MAX], text[PATH_MAX];
static const char *directory;
static int fd, at;
static DIR *dir;
static struct stat st;
static struct statx stx;
static struct iovec piece = {text, 100};
static void *mapped;

/* X(NAME, EXPRESSION that is true where the call did well) */
#define CALLS(X)                                                                              \
    X(chdir, chdir(directory) == 0)                                                           \
    X(stat_from_here, stat("f", &st) == 0)                                                    \
    X(getcwd, getcwd(text, sizeof(text)) != NULL)                                             \
    X(open, (fd = open(file, O_RDONLY)) >= 0)                                                 \
    X(read, read(fd, text, 100) > 0)                                                          \
    X(pread, pread(fd, text, 100, 0) > 0)                                                     \
    X(preadv, preadv(fd, &piece, 1, 0) > 0)                                                   \
    X(lseek, lseek(fd, 0, SEEK_SET) == 0)                                                     \
    X(fstat, fstat(fd, &st) == 0)                                                             \
    X(mmap, (mapped = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0)) != MAP_FAILED)            \
    X(munmap, munmap(mapped, 1) == 0)                                                         \
    X(dup2, dup2(fd, fd + 1) == fd + 1)                                                       \
    X(close, close(fd + 1) == 0 && close(fd) == 0)                                            \
    X(openat, (fd = openat(at, "f", O_RDONLY)) >= 0 && close(fd) == 0)                        \
    X(open_link, (fd = open(link_to_it, O_RDONLY)) >= 0 && close(fd) == 0)                    \
    X(open_missing, open("/nowhere/at/all", O_RDONLY) < 0)                                    \
    X(stat, stat(file, &st) == 0)                                                             \
    X(lstat, lstat(link_to_it, &st) == 0)                                                     \
    X(stat_link, stat(link_to_it, &st) == 0)                                                  \
    X(stat_by_proc, stat("/proc/self/cwd/l", &st) == 0)                                       \
    X(fstatat, fstatat(at, "f", &st, 0) == 0)                                                 \
    X(statx, statx(AT_FDCWD, file, 0, STATX_BASIC_STATS, &stx) == 0)                          \
    X(access, access(file, R_OK) == 0)                                                        \
    X(readlink, readlink(link_to_it, text, sizeof(text)) > 0)                                 \
    X(realpath, realpath(link_to_it, text) != NULL)                                           \
    X(opendir, (dir = opendir(directory)) != NULL)                                            \
    X(readdir, readdir(dir) != NULL && readdir(dir) != NULL && readdir(dir) != NULL)          \
    X(closedir, closedir(dir) == 0)                                                           \
    X(create, (fd = openat(at, "new", O_CREAT | O_WRONLY, 0644)) >= 0)                        \
    X(write, write(fd, "x", 1) == 1)                                                          \
    X(close_written, close(fd) == 0)                                                          \
    X(rename, renameat(at, "new", at, "newer") == 0)                                          \
    X(opendir_with_outputs, (dir = opendir(directory)) != NULL)                               \
    X(readdir_with_outputs, readdir(dir) != NULL && closedir(dir) == 0)                       \
    X(unlink, unlinkat(at, "newer", 0) == 0)                                                  \
    X(mkdir, mkdirat(at, "made", 0755) == 0)                                                  \
    X(rmdir, unlinkat(at, "made", AT_REMOVEDIR) == 0)

#define DEFINE(NAME, EXPRESSION)                                                              \
    static void do_##NAME(void)                                                               \
    {                                                                                         \
        if (!(EXPRESSION)) {                                                                  \
            perror(#NAME);                                                                    \
            exit(1);                                                                          \
        }                                                                                     \
    }
CALLS(DEFINE)

static size_t depth_of(void (*call)(void))
{
    memset(stack, PAINT, sizeof(stack));
    getcontext(&callee);
    callee.uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof(stack)};
    callee.uc_link = &caller;
    makecontext(&callee, call, 0);
    swapcontext(&caller, &callee);
    size_t untouched = 0;
    while (untouched < sizeof(stack) && stack[untouched] == PAINT)
        untouched++;
    return sizeof(stack) - untouched;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    directory = argv[1];
    snprintf(file, sizeof(file), "%s/f", directory);
    snprintf(link_to_it, sizeof(link_to_it), "%s/l", directory);
    at = open(directory, O_RDONLY | O_DIRECTORY);
#define MEASURE(NAME, EXPRESSION) printf("%s %zu\n", #NAME, depth_of(do_##NAME));
    CALLS(MEASURE)
}
