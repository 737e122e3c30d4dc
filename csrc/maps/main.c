/*
 * fanstore-maps: serves mappings of files that are not on this node, as a program of the job. The
 * daemon starts it, with the socket of programs' requests as standard input, when a program first
 * asks.
 *
 *     fanstore-maps PID      serves until the daemon ends it; or until the daemon, which is its
 *                            parent, and the process PID (the wrapper; 0: there is none) have died
 *     fanstore-maps          tries whether it could: exit code 0, or 1 and a reason
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include "fuse.h"
#include "mount.h"

static struct fan_fuse fuse;

enum { OWN_DESCRIPTORS = 64 };

/* Each input that is mapped stays open. Returns how many may. */
static unsigned raise_descriptor_limit(void)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    rlim_t most = limit.rlim_cur > OWN_DESCRIPTORS ? limit.rlim_cur - OWN_DESCRIPTORS : 0;
    return most < FAN_FUSE_FILES_MAX ? (unsigned)most : FAN_FUSE_FILES_MAX;
}

/* Slurm signals all processes at the time limit, long before the programs end. */
static void ignore_signals(void)
{
    const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        signal(numbers[i], SIG_IGN);
}

/* Returns whether a program of the job may still use its mappings. */
static bool goes_on(pid_t daemon, pid_t wrapper)
{
    return getppid() == daemon || (wrapper > 0 && kill(wrapper, 0) == 0);
}

int main(int argc, char **argv)
{
    int link;
    char path[PATH_MAX];
    long bytes = 0;
    pid_t daemon = getppid(), wrapper = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    fuse.most = raise_descriptor_limit();
    ignore_signals();
    *(void **)&fuse.reads_for = dlsym(RTLD_DEFAULT, "fanstore_reads_for"); /* the library's */
    fuse.device = fan_mount_start(STDIN_FILENO, &link);
    int rc = fuse.device < 0 ? fuse.device : fan_fuse_start(&fuse);
    if (rc != 0) {
        fprintf(stderr, "%s\n", strerror(-rc));
        return 1;
    }
    while (argc > 1 && bytes >= 0 && goes_on(daemon, wrapper)) {
        bytes = fan_mount_next(link, path, sizeof(path));
        if (bytes > 0)
            fan_mount_reply(link, fan_fuse_add(&fuse, path));
    }
    return 0;
}
