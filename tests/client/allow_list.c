/* Reads inputs under a seccomp filter that ends the program for every call that it would not make
 * on a plain directory. allow_list HOW DIRECTORY; HOW: by which call the filter is installed,
 * "warm" if the directory is read before, and "paused" if the program then writes a line and waits
 * for one.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int allowed[] = {
    SYS_openat,   SYS_read,       SYS_pread64,   SYS_close,      SYS_fstat,      SYS_newfstatat,
    SYS_lseek,    SYS_getdents64, SYS_faccessat, SYS_readlinkat, SYS_mmap,       SYS_munmap,
    SYS_mprotect, SYS_brk,        SYS_write,     SYS_exit,       SYS_exit_group, SYS_rt_sigreturn,
    SYS_futex,    SYS_fcntl,      SYS_getrandom, SYS_madvise,
#ifdef SYS_access
    SYS_access,   SYS_readlink,   SYS_open,      SYS_stat,
#endif
};

static void restrict_calls(const char *how)
{
    enum { COUNT = sizeof(allowed) / sizeof(allowed[0]) };
    struct sock_filter filter[COUNT + 4];
    unsigned n = 0;
    filter[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < COUNT; i++)
        filter[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], COUNT - i, 0);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = n, .filter = filter};
    int rc = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (strstr(how, "prctl") != NULL)
        rc |= prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    else
        rc |= syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (rc != 0)
        exit(77);
}

static void show(const char *what, const char *bytes, long count)
{
    unsigned sum = 0;
    for (long i = 0; i < count; i++)
        sum = sum * 31 + (unsigned char)bytes[i];
    printf("%s %ld %u\n", what, count, sum);
    fflush(stdout);
}

static void read_file(const char *path)
{
    static char bytes[1 << 17];
    struct stat st;
    int fd = open(path, O_RDONLY), other = open(path, O_RDONLY | O_CLOEXEC);
    show("read", bytes, read(fd, bytes, sizeof(bytes)));
    show("pread", bytes, pread(other, bytes, 100, 7));
    int rc = fstat(fd, &st);
    printf("%d %ld %ld\n", rc, (long)st.st_size, (long)lseek(fd, 0, SEEK_END));
    printf("%d %d\n", close(fd), close(other));
    FILE *stream = fopen(path, "r");
    printf("%d", fgetc(stream));
    printf(" %d\n", fclose(stream));
    printf("%d %d\n", stat(path, &st), access(path, R_OK));
}

static void read_all(const char *directory)
{
    static const char *const names[] = {"small", "large", "none", "link", "sub/deep"};
    char path[4096];
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        printf("%s %d\n", names[i], access(path, R_OK));
        if (access(path, R_OK) == 0)
            read_file(path);
    }
    DIR *listed = opendir(directory);
    int count = 0;
    while (readdir(listed) != NULL)
        count++;
    printf("%d %d\n", count, closedir(listed));
    snprintf(path, sizeof(path), "%s/link", directory);
    char target[100];
    show("link", target, readlink(path, target, sizeof(target)));
}

static void pause_here(void)
{
    char byte;
    printf("paused\n");
    fflush(stdout);
    if (read(STDIN_FILENO, &byte, 1) != 1)
        exit(78);
}

static pthread_barrier_t begun;

static void *run(void *directory)
{
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&begun);
    read_all(directory);
    exit(0);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    static char room[1 << 16];
    (void)argc;
    setvbuf(stdout, room, _IOFBF, sizeof(room));
    if (strstr(argv[1], "warm") != NULL)
        read_all(argv[2]);
    if (strstr(argv[1], "thread") == NULL) {
        restrict_calls(argv[1]);
        if (strstr(argv[1], "paused") != NULL)
            pause_here();
        read_all(argv[2]);
        return 0;
    }
    pthread_barrier_init(&begun, NULL, 2);
    pthread_create(&thread, NULL, run, argv[2]);
    pthread_barrier_wait(&begun);
    restrict_calls(argv[1]);
    pthread_barrier_wait(&begun);
    for (;;) /* the other ends the program */
        pthread_barrier_wait(&begun);
}
