/*
 * usage: server CONNECTION ROOT COUNTS MOUNT CACHE_NS DIRECT LATENCIES STREAM TOTAL
 *
 * Descriptors of a mounted connection, of the directory to show, and of a file for counts; the
 * mount point; then see slow.h, DIRECT is 0 or 1. It serves until its stdin has something to read
 * or is at its end, so that the mount ends with whoever started it, and then unmounts.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "slow.h"

enum { THREADS = 128 };

/* Programs may have more files open together than each may. */
static void allow_files(void)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

static void start(int *connection)
{
    pthread_t thread;
    for (int n = 0; n < THREADS; n++)
        if (pthread_create(&thread, NULL, serve, connection) != 0)
            abort();
}

/* With MNT_DETACH if somebody uses the mount still; by fusermount3 for those who may not. */
static void unmount(const char *mount_point)
{
    if (umount2(mount_point, 0) == 0 || umount2(mount_point, MNT_DETACH) == 0)
        return;
    execlp("fusermount3", "fusermount3", "-u", "-z", "--", mount_point, (char *)NULL);
}

int main(int argc, char **argv)
{
    char end;
    if (argc != 10)
        return 2;
    int connection = atoi(argv[1]);
    uint64_t cache_ns = strtoull(argv[5], NULL, 10);
    cache = (struct timespec){cache_ns / SECOND_NS, cache_ns % SECOND_NS};
    is_direct = atoi(argv[6]) != 0;
    bool is_right =
        fchdir(atoi(argv[2])) == 0 && pace_init(atoi(argv[3]), argv[7], argv[8], argv[9]);
    allow_files();
    umask(0); /* the kernel has applied the caller's */
    prctl(PR_SET_TIMERSLACK, 1);
    fcntl(connection, F_SETFD, FD_CLOEXEC);
    if (is_right) {
        start(&connection);
        (void)!read(STDIN_FILENO, &end, 1);
    }
    unmount(argv[4]);
    _exit(is_right ? 0 : 2);
}
