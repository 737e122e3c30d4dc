/*
 * usage: server CONNECTION ROOT COUNTS MOUNT CACHE_NS LATENCIES STREAM TOTAL
 *
 * Descriptors of a mounted connection, of the directory to show, and of a file for counts; the
 * mount point; then see slow.h. It serves until its stdin has something to read or is at its end,
 * so that the mount ends with whoever started it, and then unmounts.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "slow.h"

enum { THREADS = 128, STACK_BYTES = 64 << 10 };

static bool start(pthread_attr_t *attributes, int *connection)
{
    pthread_t thread;
    for (int n = 0; n < THREADS; n++)
        if (pthread_create(&thread, attributes, serve, connection) != 0)
            return false;
    return true;
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
    int connection = argc == 9 ? atoi(argv[1]) : -1;
    char end;
    pthread_attr_t attributes;
    if (connection < 0 || !pace_init(atoi(argv[3]), argv[6], argv[7], argv[8])) {
        fputs("slow: wrong arguments\n", stderr);
        return 2;
    }
    nodes_init(atoi(argv[2]));
    cache_ns = strtoull(argv[5], NULL, 10);
    umask(0); /* the kernel has applied the caller's */
    prctl(PR_SET_TIMERSLACK, 1);
    fcntl(connection, F_SETFD, FD_CLOEXEC);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (!start(&attributes, &connection)) {
        fputs("slow: no threads\n", stderr);
        return 1;
    }
    (void)!read(STDIN_FILENO, &end, 1);
    unmount(argv[4]);
    _exit(0);
}
