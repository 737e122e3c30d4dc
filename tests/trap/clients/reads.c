/* Reads a tree by system calls of its own: reads ROOT [LINK_TO_ROOT]. */
#define _GNU_SOURCE
#include "shown.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>

static void show_stat(const char *what, long rc, const struct stat *st)
{
    show(what, rc);
    if (rc == 0)
        printf("  %o %ld %ld.%09ld %d\n", st->st_mode, S_ISDIR(st->st_mode) ? 0 : (long)st->st_size,
               (long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (int)st->st_uid);
}

static unsigned sum(int fd)
{
    unsigned total = 0, count = 0;
    unsigned char piece[5000];
    for (ssize_t got; (got = read(fd, piece, sizeof(piece))) > 0; count += (unsigned)got)
        for (ssize_t i = 0; i < got; i++)
            total = total * 31 + piece[i];
    return total ^ count;
}

static void files(void)
{
    struct stat st, other;
    char text[100];
    int fd = (int)SYS(open, below("a.txt"), O_RDONLY);
    printf("%s\n", fcntl(fd, F_GETFD) & FD_CLOEXEC ? "cloexec" : "kept");
    printf("sum %x\n", sum(fd));
    SYS(lseek, fd, 2, SEEK_SET);
    printf("%.*s\n", (int)SYS(read, fd, text, 3), text);
    SYS(write, fd, "x", 1);
    show_stat("fstat", syscall(SYS_fstat, fd, &st), &st);
    show_stat("lstat", syscall(SYS_lstat, below("a.txt"), &other), &other);
    printf("same %d\n", st.st_ino == other.st_ino && st.st_dev == other.st_dev);
    SYS(close, fd);
    fd = (int)SYS(openat, AT_FDCWD, below("big.bin"), O_RDONLY | O_CLOEXEC);
    printf("%s\n", fcntl(fd, F_GETFD) & FD_CLOEXEC ? "cloexec" : "kept");
    char *map = mmap(NULL, 300000, PROT_READ, MAP_PRIVATE, fd, 0);
    printf("mapped %d\n", map != MAP_FAILED && map[299999] != 0 ? map[299999] : 0);
    printf("sum %x\n", sum(fd));
    int again = open("/proc/self/fd/3", O_RDONLY);
    printf("again %d sum %x\n", again, sum(fd));
    close(again);
    close(fd);
    SYS(open, below("empty"), O_RDONLY);
    printf("sum %x\n", sum(3));
    close(3);
    SYS(open, below("a.txt"), O_RDONLY | O_DIRECTORY);
    SYS(open, below("a.txt/x"), O_RDONLY);
    SYS(open, below("none"), O_RDONLY);
    SYS(open, below("none/x"), O_RDONLY);
    SYS(open, below("la"), O_RDONLY | O_NOFOLLOW);
    SYS(open, below("loop"), O_RDONLY);
    SYS(open, below("dangling"), O_RDONLY);
    SYS(open, below("sub"), O_RDWR);
    SYS(open, below("a.txt"), O_RDONLY | O_CREAT | O_EXCL, 0600);
    SYS(open, (char *)8, O_RDONLY);
    SYS(open, "", O_RDONLY);
}

static void looks(void)
{
    struct stat st;
    struct statx stx;
    struct statfs fs;
    char text[4096];
    show_stat("stat link", syscall(SYS_stat, below("link"), &st), &st);
    show_stat("lstat link", syscall(SYS_lstat, below("link"), &st), &st);
    show_stat("newfstatat", syscall(SYS_newfstatat, AT_FDCWD, below("la"), &st, 0), &st);
    show_stat("newfstatat nofollow",
              syscall(SYS_newfstatat, AT_FDCWD, below("la"), &st, AT_SYMLINK_NOFOLLOW), &st);
    SYS(statx, AT_FDCWD, below("big.bin"), 0, STATX_BASIC_STATS, &stx);
    printf("statx %o %llu\n", stx.stx_mode, (unsigned long long)stx.stx_size);
    SYS(stat, below("none"), &st);
    SYS(stat, below("a.txt"), (struct stat *)8);
    SYS(access, below("a.txt"), R_OK);
    SYS(access, below("a.txt"), X_OK);
    SYS(access, below("none"), F_OK);
    SYS(faccessat, AT_FDCWD, below("sub"), X_OK);
    SYS(faccessat2, AT_FDCWD, below("dangling"), F_OK, AT_SYMLINK_NOFOLLOW);
    show_text("readlink", text, SYS(readlink, below("link"), text, sizeof(text)));
    show_text("short", text, SYS(readlink, below("link"), text, 3));
    SYS(readlink, below("a.txt"), text, sizeof(text));
    SYS(readlink, below("la"), text, 0);
    SYS(statfs, below("sub"), &fs);
    SYS(statfs, below("none"), &fs);
    SYS(getxattr, below("a.txt"), "user.x", text, sizeof(text));
}

/* A watch's number and a handle's content are the kernel's own. */
static void watches(void)
{
    char handle[8 + MAX_HANDLE_SZ] = {0}, text[100];
    int fd = inotify_init1(IN_NONBLOCK), mount_id;
    *(unsigned *)handle = MAX_HANDLE_SZ;
    printf("watch %d\n", syscall(SYS_inotify_add_watch, fd, below("a.txt"), IN_MODIFY) > 0);
    printf("watch %d\n", syscall(SYS_inotify_add_watch, fd, below("sub"), IN_CREATE) > 0);
    printf("watch %d\n", syscall(SYS_inotify_add_watch, fd, below("link/x"), IN_MODIFY) > 0);
    SYS(inotify_add_watch, fd, below("none"), IN_MODIFY);
    SYS(inotify_add_watch, fd, below("loop"), IN_MODIFY);
    printf("watch %d\n",
           syscall(SYS_inotify_add_watch, fd, below("loop"), IN_MODIFY | IN_DONT_FOLLOW) > 0);
    SYS(inotify_add_watch, fd, below("a.txt"), 0);
    SYS(inotify_add_watch, 99, below("a.txt"), IN_MODIFY);
    SYS(inotify_add_watch, 1, below("a.txt"), IN_MODIFY);
    SYS(read, fd, text, sizeof(text));
    close(fd);
    long rc = syscall(SYS_name_to_handle_at, AT_FDCWD, below("a.txt"), handle, &mount_id, 0);
    printf("handle %d\n", rc == 0 || errno == EOPNOTSUPP); /* what a mount answers */
    SYS(name_to_handle_at, AT_FDCWD, below("none"), handle, &mount_id, 0);
    SYS(name_to_handle_at, AT_FDCWD, below("a.txt/x"), handle, &mount_id, 0);
    SYS(lgetxattr, below("dangling"), "user.x", text, sizeof(text));
    SYS(getxattr, below("dangling"), "user.x", text, sizeof(text));
    SYS(getxattr, below("a.txt"), "x", text, sizeof(text));
    SYS(getxattr, below("a.txt"), "", text, sizeof(text));
    SYS(getxattr, below("a.txt"), "user.", text, sizeof(text));
    SYS(getxattr, below("a.txt"), (char *)8, text, sizeof(text));
    SYS(listxattr, below("a.txt"), text, sizeof(text));
    SYS(llistxattr, below("none"), text, 0);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(const char *what, int fd)
{
    DIR *dir = fdopendir(dup(fd));
    char *names[100];
    int count = 0;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char line[300];
        snprintf(line, sizeof(line), "%s %d", entry->d_name, entry->d_type);
        names[count++] = strdup(line);
    }
    closedir(dir);
    qsort(names, (size_t)count, sizeof(*names), compare);
    printf("list %s", what);
    for (int i = 0; i < count; i++)
        printf(", %s", names[i]);
    printf("\n");
}

static void directories(void)
{
    struct stat st, other;
    struct open_how how = {.flags = O_RDONLY};
    char text[4096], link[64];
    int top = (int)SYS(open, root, O_RDONLY | O_DIRECTORY);
    list("root", top);
    show_stat("fstat", fstat(top, &st), &st);
    stat(root, &other);
    printf("same %d\n", st.st_ino == other.st_ino && st.st_dev == other.st_dev);
    int sub = (int)SYS(openat, top, "sub/deep", O_RDONLY | O_DIRECTORY);
    list("deep", sub);
    int fd = (int)SYS(openat, sub, "../../a.txt", O_RDONLY);
    printf("sum %x\n", sum(fd));
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    show_text("link of a file", text, readlink(link, text, sizeof(text)));
    snprintf(link, sizeof(link), "/proc/self/fd/%d", sub);
    show_text("link of a directory", text, readlink(link, text, sizeof(text)));
    snprintf(link, sizeof(link), "/proc/self/fd/%d/x", sub);
    SYS(close, fd);
    fd = (int)SYS(open, link, O_RDONLY);
    printf("sum %x\n", sum(fd));
    SYS(close, fd);
    SYS(openat, sub, "x/", O_RDONLY);
    SYS(openat2, top, "a.txt", &how, sizeof(how));
    SYS(close, 5);
    how.resolve = RESOLVE_BENEATH;
    fd = (int)syscall(SYS_openat2, sub, "x", &how, sizeof(how));
    printf("beneath %d\n", fd >= 0 || errno == ENOSYS);
    close(fd);
    int path = (int)SYS(openat, top, "a.txt", O_PATH);
    show_stat("O_PATH", fstatat(path, "", &st, AT_EMPTY_PATH), &st);
    SYS(read, path, text, 1);
    SYS(close, path);
    SYS(close, sub);
    SYS(close, top);
}

static void places(void)
{
    char text[4096];
    SYS(chdir, root);
    show_text("cwd", text, (long)strlen(getcwd(text, sizeof(text))));
    SYS(open, "a.txt", O_RDONLY);
    printf("sum %x\n", sum(3));
    close(3);
    SYS(chdir, "link");
    show_text("cwd", text, (long)strlen(getcwd(text, sizeof(text))));
    show_text("proc", text, readlink("/proc/self/cwd", text, sizeof(text)));
    SYS(open, "x", O_RDONLY);
    printf("sum %x\n", sum(3));
    close(3);
    SYS(chdir, "..");
    show_text("cwd", text, (long)strlen(getcwd(text, sizeof(text))));
    SYS(open, ".//../a.txt", O_RDONLY);
    close(3);
    SYS(chdir, below("a.txt"));
    SYS(chdir, below("none"));
    int top = open(root, O_RDONLY | O_DIRECTORY);
    SYS(fchdir, top);
    show_text("cwd", text, (long)strlen(getcwd(text, sizeof(text))));
    show_text("proc", text, readlink("/proc/self/cwd", text, sizeof(text)));
    SYS(getcwd, text, 3);
    SYS(chdir, "sub/deep");
    show_text("cwd", text, (long)strlen(getcwd(text, sizeof(text))));
    SYS(open, "x", O_RDONLY);
    close(4);
    SYS(chdir, "/");
    close(top);
}

static void *reader(void *name)
{
    unsigned total = 0;
    for (int i = 0; i < 20; i++) {
        int fd = open(name, O_RDONLY);
        total += sum(fd);
        close(fd);
    }
    return (void *)(unsigned long)total;
}

static void many(void)
{
    pthread_t threads[4];
    const char *names[4] = {strdup(below("a.txt")), strdup(below("big.bin")),
                            strdup(below("sub/deep/x")), strdup(below("none"))};
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, reader, (void *)names[i]);
    for (int i = 0; i < 4; i++) {
        void *total;
        pthread_join(threads[i], &total);
        printf("thread %d: %lx\n", i, (unsigned long)total);
    }
    int fd = open(names[0], O_RDONLY), status;
    char text[8];
    read(fd, text, 2);
    fflush(stdout);
    if (fork() == 0) {
        printf("child %x\n", sum(fd)); /* one offset with the parent */
        printf("child %x\n", sum(open(names[1], O_RDONLY)));
        fflush(stdout);
        _exit(3);
    }
    wait(&status);
    printf("child ended %d, left %x\n", WEXITSTATUS(status), sum(fd));
    close(fd);
}

int main(int argc, char **argv)
{
    root = argv[1];
    files();
    looks();
    watches();
    directories();
    places();
    many();
    if (argc > 2) { /* by a link that lies elsewhere */
        char path[4096];
        snprintf(path, sizeof(path), "%s/sub/../a.txt", argv[2]);
        printf("by a link: %d", open(path, O_RDONLY) >= 0);
        printf(" %x\n", sum(3));
        printf("stat by a link: %d\n", access(path, R_OK));
    }
    SYS(open, "/etc/passwd", O_RDONLY);
    SYS(open, "/no such file", O_RDONLY);
    return 0;
}
