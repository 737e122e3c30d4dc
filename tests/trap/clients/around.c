/* Starts programs: around WHAT [ARGUMENT...]. */
#define _GNU_SOURCE
#include "shown.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* The program many times, eight at once: how many did not start or failed. */
static int many(char **argv, int times)
{
    int failed = 0, status;
    for (int started = 0, ended = 0; ended < times; ended++) {
        for (; started < times && started - ended < 8; started++) {
            if (fork() == 0) {
                execv(argv[0], argv);
                _exit(1);
            }
        }
        if (wait(&status) < 0 || status != 0)
            failed++;
    }
    printf("%d failed\n", failed);
    return 0;
}

/* What a container may forbid. */
static void forbid_unshare(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog given = {4, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &given);
}

int main(int argc, char **argv)
{
    const char *what = argv[1];
    (void)argc;
    if (strcmp(what, "many") == 0)
        return many(argv + 3, atoi(argv[2]));
    if (strcmp(what, "stand") == 0 && fchdir(open(argv[2], O_RDONLY | O_DIRECTORY)) == 0)
        execvp(argv[3], argv + 3);
    if (strcmp(what, "confined") == 0) {
        forbid_unshare();
        execvp(argv[2], argv + 2);
    }
    return 99;
}
