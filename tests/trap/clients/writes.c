/* Makes outputs by system calls of its own: writes ROOT. */
#define _GNU_SOURCE
#include "shown.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <utime.h>

static void show_file(const char *name)
{
    char text[200];
    struct stat st;
    int fd = open(below(name), O_RDONLY);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
    printf("  %s: %zd %.*s", name, got, got > 0 ? (int)got : 0, text);
    if (fd >= 0 && fstat(fd, &st) == 0)
        printf(" %o %ld", st.st_mode, (long)st.st_size);
    printf("\n");
    close(fd);
}

static void list(const char *name)
{
    DIR *dir = opendir(below(name));
    char seen[4096] = "";
    const char *const known[] = {"f", "g", "h", "sub", "link", "node", "kept", "big", "t", "moved"};
    if (dir == NULL)
        printf("list %s: %s\n", name, strerror(errno));
    int count = 0;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL; count++) {
        strcat(seen, "/");
        strcat(seen, entry->d_name);
        strcat(seen, "/");
    }
    printf("list %s %d:", name, count);
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char marked[40];
        snprintf(marked, sizeof(marked), "/%s/", known[i]);
        if (strstr(seen, marked) != NULL)
            printf(" %s", known[i]);
    }
    printf("\n");
    if (dir != NULL)
        closedir(dir);
}

static void files(void)
{
    struct stat st, other;
    SYS(mkdir, below("new"), 0777);
    stat(below("new"), &st);
    printf("mode %o\n", st.st_mode);
    SYS(mkdir, below("new"), 0777);
    int fd = (int)SYS(open, below("new/f"), O_CREAT | O_WRONLY | O_EXCL, 0666);
    SYS(write, fd, "one\n", 4);
    fstat(fd, &st);
    printf("%o %ld\n", st.st_mode, (long)st.st_size);
    stat(below("new/f"), &other);
    printf("same %d, %ld\n", st.st_ino == other.st_ino && st.st_dev == other.st_dev,
           (long)other.st_size);
    SYS(close, fd);
    show_file("new/f");
    SYS(open, below("new/f"), O_CREAT | O_WRONLY | O_EXCL, 0666);
    fd = (int)SYS(open, below("new/f"), O_WRONLY | O_APPEND);
    SYS(write, fd, "two\n", 4);
    SYS(close, fd);
    show_file("new/f");
    fd = (int)SYS(creat, below("new/g"), 0640);
    SYS(ftruncate, fd, 10);
    char *map = mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    printf("map %d\n", map == MAP_FAILED ? errno : 0);
    fd = (int)SYS(open, below("new/h"), O_CREAT | O_RDWR | O_TRUNC, 0600);
    SYS(pwrite64, fd, "abc", 3, 5L);
    SYS(lseek, fd, 0, SEEK_SET);
    show_file("new/h");
    SYS(close, fd);
    show_file("new/h");
    SYS(truncate, below("new/h"), 6);
    show_file("new/h");
    list("new");
}

static void names(void)
{
    char text[100];
    struct stat st;
    SYS(rename, below("new/f"), below("new/moved"));
    SYS(rename, below("new/f"), below("new/moved"));
    SYS(renameat2, AT_FDCWD, below("new/moved"), AT_FDCWD, below("new/h"), RENAME_NOREPLACE);
    SYS(renameat2, AT_FDCWD, below("new/moved"), AT_FDCWD, below("new/h"), 0);
    show_file("new/h");
    SYS(symlink, "h", below("new/link"));
    printf("%ld %.1s\n", SYS(readlink, below("new/link"), text, sizeof(text)), text);
    show_file("new/link");
    SYS(unlink, below("new/link"));
    SYS(unlink, below("new/link"));
    SYS(unlink, below("new"));
    SYS(rmdir, below("new"));
    SYS(mkdirat, AT_FDCWD, below("new/sub"), 0700);
    SYS(mkdir, below("new/none/x"), 0700);
    int dir = (int)SYS(open, below("new"), O_RDONLY | O_DIRECTORY);
    int fd = (int)SYS(openat, dir, "sub/t", O_CREAT | O_WRONLY, 0600);
    SYS(write, fd, "t", 1);
    SYS(close, fd);
    SYS(unlinkat, dir, "sub", AT_REMOVEDIR);
    SYS(renameat, dir, "sub", dir, "big");
    list("new");
    list("new/big");
    SYS(unlinkat, dir, "big/t", 0);
    SYS(unlinkat, dir, "big", AT_REMOVEDIR);
    SYS(close, dir);
    SYS(mknod, below("new/node"), S_IFREG | 0600, 0);
    stat(below("new/node"), &st);
    printf("%o\n", st.st_mode);
    list("new");
    SYS(unlink, below("new/node"));
    SYS(rename, below("new/h"), "/tmp/trap-nowhere/x");
}

static void attributes(void)
{
    struct stat st;
    struct timespec times[2] = {{1000000000, 5}, {1100000000, 7}};
    struct timeval old[2] = {{900000000, 0}, {910000000, 0}};
    SYS(chmod, below("new/h"), 0751);
    SYS(fchmodat, AT_FDCWD, below("new/none"), 0751);
    SYS(chown, below("new/h"), getuid(), getgid());
    SYS(utimensat, AT_FDCWD, below("new/h"), times, 0);
    stat(below("new/h"), &st);
    printf("%o %ld.%ld\n", st.st_mode, (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    SYS(utimes, below("new/h"), old);
    stat(below("new/h"), &st);
    printf("%ld.%ld\n", (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    SYS(access, below("new/h"), W_OK);
}

/* What an output has beside its content. */
static void rest(void)
{
    char text[200] = "", handle[8 + MAX_HANDLE_SZ] = {0};
    int fd = inotify_init1(IN_NONBLOCK), mount_id = -1;
    const char *name = below("new/h");
    SYS(setxattr, name, "user.one", "1st", 3, 0);
    SYS(setxattr, name, "user.one", "1st", 3, XATTR_CREATE);
    SYS(setxattr, name, "user.one", "x", 100000, 0);
    SYS(lsetxattr, name, "user.two", NULL, 0, 0);
    SYS(getxattr, name, "user.one", text, sizeof(text));
    SYS(getxattr, name, "user.one", text, 2);
    SYS(lgetxattr, name, "user.one", NULL, 0);
    SYS(getxattr, name, "user.none", text, sizeof(text));
    printf("%s\n", text);
    SYS(listxattr, name, text, sizeof(text));
    SYS(llistxattr, name, NULL, 0);
    SYS(removexattr, name, "user.one");
    SYS(removexattr, name, "user.one");
    SYS(lremovexattr, name, "user.two");
    printf("watch %d\n", syscall(SYS_inotify_add_watch, fd, name, IN_ATTRIB) > 0);
    chmod(name, 0640);
    printf("event %d\n", read(fd, text, sizeof(text)) > 0);
    close(fd);
    printf("no room %ld", syscall(SYS_name_to_handle_at, AT_FDCWD, name, handle, &mount_id, 0));
    printf(" %d %d\n", errno, *(int *)handle > 0);
    *(unsigned *)handle = MAX_HANDLE_SZ;
    printf("handle %ld", syscall(SYS_name_to_handle_at, AT_FDCWD, name, handle, &mount_id, 0));
    printf(" %d %d\n", *(int *)handle, mount_id > 0);
    SYS(faccessat2, AT_FDCWD, name, X_OK, AT_EACCESS);
    SYS(chown, below("new/none"), getuid(), getgid());
}

static void processes(void)
{
    int status, fd = open(below("new/kept"), O_CREAT | O_WRONLY, 0600);
    if (fork() == 0) {
        write(fd, "child ", 6);
        _exit(0); /* its copy of the descriptor goes with it */
    }
    wait(&status);
    write(fd, "parent\n", 7);
    close(fd);
    show_file("new/kept");
    umask(077);
    close(open(below("new/t"), O_CREAT | O_WRONLY, 0666));
    struct stat st;
    stat(below("new/t"), &st);
    printf("%o\n", st.st_mode);
    SYS(chdir, below("new"));
    close(open("big", O_CREAT | O_WRONLY, 0644));
    fd = open("big", O_WRONLY);
    for (int i = 0; i < 1000; i++)
        write(fd, "0123456789abcdef", 16);
    /* left open: finished by the end of the process */
}

int main(int argc, char **argv)
{
    root = argv[argc - 1];
    umask(022);
    files();
    names();
    attributes();
    rest();
    processes();
    list("new");
    return 0;
}
