/* Making outputs from C: calls that Python has no word for. D is the case's directory. */
#include "client.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <spawn.h>
#include <pthread.h>
#include <utime.h>

static const char *in_d(const char *name)
{
    return join("D", name);
}

/* Compared between the two sides: a call's result, and errno where it failed. */
#define TELL(CALL)                                                                                 \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long got = (long) (CALL);                                                                  \
        int seen = errno;                                                                          \
        SHOW("%s: %s", #CALL, got < 0 ? strerrorname_np(seen) : "ok");                             \
    } while (0)

static void put(const char *path, const char *content)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    OK(fd >= 0);
    OK(write(fd, content, strlen(content)) == (ssize_t) strlen(content));
    OK(close(fd) == 0);
}

static void show_file(const char *name)
{
    char buffer[4096] = {0};
    int fd = open(in_d(name), O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, buffer, sizeof(buffer) - 1);
    SHOW("%s: %zd %s", name, got, fd < 0 ? strerrorname_np(errno) : buffer);
    if (fd >= 0) {
        close(fd);
    }
}

CASE(creat_names)
{
    TELL(close(creat(in_d("a"), 0644)));
    TELL(close(creat64(in_d("a"), 0644)));
    TELL(close(open64(in_d("b"), O_RDWR | O_CREAT, 0600)));
    TELL(close(openat64(AT_FDCWD, in_d("c"), O_RDWR | O_CREAT, 0600)));
    TELL(creat(in_d("none/x"), 0644));
    TELL(creat(in_d("sub"), 0644));
}

CASE(system_calls)
{
    struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0640};
    int dir = open(getenv("D"), O_RDONLY);
    int fd = syscall(SYS_openat2, dir, "f", &how, sizeof(how));
    OK(fd >= 0);
    TELL(write(fd, "openat2", 7));
    TELL(close(fd));
    TELL(syscall(SYS_renameat2, dir, "f", dir, "g", 0));
    TELL(syscall(SYS_mkdirat, dir, "d", 0755));
    TELL(syscall(SYS_unlinkat, dir, "d", AT_REMOVEDIR));
    TELL(syscall(SYS_openat, dir, "none/x", O_RDWR | O_CREAT, 0600));
    show_file("g");
}

CASE(openat2_by_rules)
{
    struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0640, .resolve = RESOLVE_BENEATH};
    const char *const paths[] = {"d/f", "../f", "d/../../f", "link/g", "to_new", "away", "sub/x"};
    int dir = open(getenv("D"), O_RDONLY);
    OK(mkdirat(dir, "d", 0755) == 0);
    OK(symlinkat("d", dir, "link") == 0);
    OK(symlinkat("d/new", dir, "to_new") == 0);
    OK(symlinkat(getenv("D"), dir, "away") == 0);
    for (int i = 0; i < 7; i++) {
        SHOW("%s", paths[i]);
        TELL(close(syscall(SYS_openat2, dir, paths[i], &how, sizeof(how))));
    }
    how.resolve = RESOLVE_NO_SYMLINKS;
    TELL(syscall(SYS_openat2, dir, "link/h", &how, sizeof(how)));
    TELL(close(syscall(SYS_openat2, dir, "d/h", &how, sizeof(how))));
    how.resolve = RESOLVE_IN_ROOT;
    TELL(close(syscall(SYS_openat2, dir, "/../d/i", &how, sizeof(how))));
    show_file("d/new");
}

CASE(temporary_names)
{
    char path[PATH_MAX];
#define FRESH (strcpy(path, in_d("tmpXXXXXX")), path)
    TELL(close(mkstemp(FRESH)));
    TELL(unlink(path));
    TELL(close(mkstemp64(FRESH)));
    TELL(unlink(path));
    TELL(close(mkostemp(FRESH, O_CLOEXEC)));
    TELL(unlink(path));
    TELL(mkdtemp(FRESH) == NULL ? -1 : 0);
    TELL(rmdir(path));
    TELL(close(mkstemps(strcpy(path, in_d("tmpXXXXXX.txt")), 4)));
    TELL(unlink(path));
    TELL(mkstemp(strcpy(path, in_d("tmp"))));
    TELL(mkstemp(strcpy(path, in_d("none/tmpXXXXXX"))));
}

CASE(time_names)
{
    struct utimbuf old = {1, 2};
    struct timeval pair[2] = {{3, 0}, {4, 5}};
    struct timespec fine[2] = {{5, 6}, {7, 8}};
    struct timespec omit[2] = {{0, UTIME_OMIT}, {9, 10}};
    struct stat status;
    put(in_d("f"), "x");
    OK(symlink("f", in_d("link")) == 0);
    int fd = open(in_d("f"), O_RDONLY);
#define TIMED(CALL)                                                                                \
    TELL(CALL);                                                                                    \
    OK(lstat(in_d("f"), &status) == 0);                                                            \
    show_stat("f", &status)
    TIMED(utime(in_d("f"), &old));
    TIMED(utimes(in_d("f"), pair));
    TIMED(futimes(fd, pair));
    TIMED(futimens(fd, fine));
    TIMED(futimesat(AT_FDCWD, in_d("f"), pair));
    TIMED(utimensat(AT_FDCWD, in_d("f"), fine, 0));
    TIMED(utimensat(AT_FDCWD, in_d("f"), omit, 0));
    TIMED(lutimes(in_d("link"), pair));
    TELL(utimensat(AT_FDCWD, in_d("none"), NULL, 0));
    OK(lstat(in_d("link"), &status) == 0);
    SHOW("link %ld", (long) status.st_mtim.tv_sec);
}

CASE(mode_and_owner_names)
{
    struct stat status;
    put(in_d("f"), "x");
    OK(symlink("f", in_d("link")) == 0);
    int fd = open(in_d("f"), O_RDONLY), dir = open(getenv("D"), O_RDONLY);
    OK(utimes(in_d("f"), (struct timeval[2]){{1, 2}, {3, 4}}) == 0);
    TIMED(chmod(in_d("f"), 0600));
    TIMED(fchmod(fd, 0640));
    TIMED(fchmodat(dir, "f", 0644, 0));
    TIMED(fchownat(dir, "f", -1, -1, 0));
    TIMED(fchownat(fd, "", -1, -1, AT_EMPTY_PATH));
    TIMED(lchown(in_d("link"), -1, -1));
    TIMED(fchown(fd, getuid(), getgid()));
}

CASE(truncate_names)
{
    struct stat status;
    put(in_d("f"), "0123456789");
    TELL(truncate(in_d("f"), 5));
    show_file("f");
    TELL(truncate64(in_d("f"), 7));
    int fd = open(in_d("f"), O_RDWR);
    TELL(ftruncate64(fd, 3));
    TELL(fallocate(fd, 0, 0, 10));
    TELL(posix_fallocate(fd, 0, 20));
    OK(fstat(fd, &status) == 0);
    SHOW("size %lld", (long long) status.st_size);
    TELL(close(fd));
}

CASE(name_changing_names)
{
    int dir = open(getenv("D"), O_RDONLY);
    put(in_d("f"), "x");
    TELL(renameat(dir, "f", dir, "g"));
    TELL(renameat2(dir, "g", dir, "h", RENAME_NOREPLACE));
    TELL(renameat2(dir, "h", dir, "given", RENAME_NOREPLACE));
    TELL(unlinkat(dir, "h", 0x8000));
    TELL(unlinkat(dir, "h", AT_REMOVEDIR));
    TELL(remove(in_d("h")));
    TELL(mkdirat(dir, "d", 0700));
    TELL(unlinkat(dir, "d", 0));
    TELL(remove(in_d("d")));
    TELL(mknodat(dir, "node", S_IFREG | 0600, 0));
    TELL(mknod(in_d("node"), S_IFREG | 0600, 0));
    TELL(symlinkat("to", dir, "link"));
    TELL(symlinkat("to", dir, "link"));
}

/* Exported by every glibc, declared by old ones alone. */
int __xmknod(int version, const char *path, mode_t mode, dev_t *device);
int __xmknodat(int version, int dirfd, const char *path, mode_t mode, dev_t *device);

CASE(older_names)
{
    dev_t none = 0;
    int dir = open(getenv("D"), O_RDONLY);
    TELL(__xmknod(0, in_d("f"), S_IFREG | 0600, &none));
    TELL(__xmknodat(0, dir, "p", S_IFREG | 0600, &none));
    TELL(__xmknodat(0, dir, "p", S_IFREG | 0600, &none));
    TELL(__xmknodat(0, dir, "p", S_IFIFO | 0600, &none));
    TELL(lchmod(in_d("f"), 0640));
    TELL(lchmod(in_d("none"), 0640));
}

CASE(statx_and_friends)
{
    struct statx found;
    struct stat64 status;
    put(in_d("f"), "12345");
    TELL(statx(AT_FDCWD, in_d("f"), 0, STATX_BASIC_STATS, &found));
    SHOW("%u %llu %u", found.stx_mode, (unsigned long long) found.stx_size, found.stx_nlink);
    int fd = open(in_d("f"), O_RDONLY), path = open(in_d("f"), O_PATH);
    unsigned long long inode = found.stx_ino;
    TELL(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &found));
    SHOW("same %d size %llu", found.stx_ino == inode, (unsigned long long) found.stx_size);
    TELL(fstatat64(fd, "", &status, AT_EMPTY_PATH));
    SHOW("same %d", status.st_ino == inode);
    TELL(fstatat64(path, "", &status, AT_EMPTY_PATH));
    SHOW("same %d", status.st_ino == inode);
    TELL(stat64(in_d("f"), &status));
    SHOW("same %d", status.st_ino == inode);
    TELL(statx(AT_FDCWD, in_d("none"), 0, STATX_BASIC_STATS, &found));
    TELL(statx(fd, "x", 0, STATX_BASIC_STATS, &found));
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *) left, *(char *const *) right);
}

static void show_listing(DIR *dir)
{
    char *found[100];
    int count = 0;
    for (struct dirent *each; count < 100 && (each = readdir(dir)) != NULL; count++) {
        char line[400];
        snprintf(line, sizeof(line), "%s type %d", each->d_name, each->d_type);
        found[count] = strdup(line);
    }
    qsort(found, count, sizeof(found[0]), by_name);
    for (int i = 0; i < count; i++) {
        SHOW("  %s", found[i]);
    }
}

CASE(readdir_rewinddir_seekdir)
{
    OK(mkdir(in_d("d"), 0755) == 0);
    put(in_d("d/f"), "x");
    DIR *dir = opendir(in_d("d"));
    show_listing(dir);
    put(in_d("d/g"), "x");
    OK(mkdirat(dirfd(dir), "e", 0755) == 0);
    rewinddir(dir);
    show_listing(dir);
    long at = telldir(dir);
    seekdir(dir, at);
    SHOW("end %d", readdir(dir) == NULL);
    OK(unlinkat(dirfd(dir), "f", 0) == 0);
    rewinddir(dir);
    show_listing(dir);
    TELL(closedir(dir));
    dir = opendir(getenv("D"));
    show_listing(dir);
    dir = fdopendir(open(in_d("d"), O_RDONLY));
    show_listing(dir);
    TELL(opendir(in_d("none")) == NULL ? -1 : 0);
    TELL(opendir(in_d("d/g")) == NULL ? -1 : 0);
}

CASE(getdents)
{
    char buffer[8192];
    int count = 0;
    OK(mkdir(in_d("d"), 0755) == 0);
    for (int i = 0; i < 50; i++) {
        char name[40];
        snprintf(name, sizeof(name), "d/file%02d", i);
        put(in_d(name), "");
    }
    int fd = open(in_d("d"), O_RDONLY | O_DIRECTORY);
    for (long got; (got = getdents64(fd, buffer, 1024)) > 0;) {
        for (long at = 0; at < got; count++) {
            at += ((struct dirent64 *) (buffer + at))->d_reclen;
        }
    }
    SHOW("count %d", count);
}

CASE(scandir_and_glob)
{
    struct dirent **list;
    put(in_d("f1"), "x");
    put(in_d("f2"), "x");
    int count = scandir(getenv("D"), &list, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        SHOW("%s", list[i]->d_name);
    }
    char resolved[PATH_MAX];
    OK(symlink("f1", in_d("link")) == 0);
    TELL(realpath(in_d("link"), resolved) == NULL ? -1 : 0);
    SHOW("%s", resolved);
}

CASE(file_systems)
{
    struct statvfs vfs;
    struct statfs fs;
    OK(mkdir(in_d("d"), 0755) == 0);
    put(in_d("d/f"), "x");
    int fd = open(in_d("d/f"), O_RDWR);
    OK(statvfs(in_d("d"), &vfs) == 0);
    SHOW("read only %d room %d", (vfs.f_flag & ST_RDONLY) != 0, vfs.f_bavail > 0);
    OK(fstatvfs(fd, &vfs) == 0);
    SHOW("read only %d room %d", (vfs.f_flag & ST_RDONLY) != 0, vfs.f_bavail > 0);
    OK(statfs(in_d("d/f"), &fs) == 0);
    SHOW("room %d names %ld", fs.f_bavail > 0, (long) fs.f_namelen);
    OK(fstatfs(fd, &fs) == 0);
    SHOW("room %d", fs.f_bavail > 0);
}

CASE(shared_mapping)
{
    int fd = open(in_d("f"), O_RDWR | O_CREAT, 0644);
    OK(ftruncate(fd, 8192) == 0);
    char *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    OK(at != MAP_FAILED);
    strcpy(at, "mapped");
    OK(msync(at, 8192, MS_SYNC) == 0);
    OK(munmap(at, 8192) == 0);
    OK(close(fd) == 0);
    show_file("f");
}

CASE(vfork_and_exec)
{
    int fd = open(in_d("f"), O_WRONLY | O_CREAT, 0644), status = 0;
    OK(write(fd, "parent ", 7) == 7);
    pid_t child = vfork();
    if (child == 0) {
        dup2(fd, 1);
        close(fd);
        execlp("echo", "echo", "child", NULL);
        _exit(127);
    }
    OK(waitpid(child, &status, 0) == child);
    SHOW("status %d", status);
    OK(write(fd, "parent again", 12) == 12);
    OK(close(fd) == 0);
    show_file("f");
}

CASE(vfork_child_opens)
{
    int status = 0;
    pid_t child = vfork();
    if (child == 0) {
        int fd = open(in_d("f"), O_WRONLY | O_CREAT, 0644);
        dup2(fd, 1);
        execlp("echo", "echo", "opened by the child", NULL);
        _exit(127);
    }
    OK(waitpid(child, &status, 0) == child);
    SHOW("status %d", status);
    show_file("f");
}

CASE(spawn_actions)
{
    extern char **environ;
    posix_spawn_file_actions_t actions;
    char *argv[] = {"sh", "-c", "echo spawned; pwd | sed 's|.*/||'", NULL};
    int status = 0;
    pid_t child;
    OK(mkdir(in_d("d"), 0755) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, in_d("d"));
    posix_spawn_file_actions_addopen(&actions, 1, in_d("f"), O_WRONLY | O_CREAT | O_TRUNC, 0640);
    OK(posix_spawnp(&child, "sh", &actions, NULL, argv, environ) == 0);
    OK(waitpid(child, &status, 0) == child);
    SHOW("status %d", status);
    show_file("f");
}

CASE(descriptors_moved)
{
    int fd = open(in_d("f"), O_WRONLY | O_CREAT, 0644);
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
    SHOW("high %d", high >= 100);
    OK(close(fd) == 0);
    OK(dup3(high, 50, O_CLOEXEC) == 50);
    OK(close(high) == 0);
    OK(dprintf(50, "number %d", 7) == 8);
    TELL(close_range(50, 60, 0));
    TELL(write(50, "x", 1));
    show_file("f");
}

CASE(exit_functions)
{
    void (*const ends[])(int) = {exit, _exit, _Exit, quick_exit};
    const char *names[] = {"exit", "_exit", "_Exit", "quick_exit"};
    for (int i = 0; i < 4; i++) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int fd = open(in_d(names[i]), O_WRONLY | O_CREAT, 0644);
            OK(write(fd, names[i], strlen(names[i])) > 0);
            ends[i](0);
        }
        OK(waitpid(child, &status, 0) == child);
        SHOW("status %d", status);
        show_file(names[i]);
    }
}

CASE(kernel_to_kernel)
{
    int given = open(in_d("given"), O_RDONLY), status = 0;
    int fd = open(in_d("f"), O_RDWR | O_CREAT, 0644);
    off_t offset = 0;
    TELL(sendfile(fd, given, &offset, 100));
    TELL(copy_file_range(given, NULL, fd, NULL, 100, 0));
    TELL(syscall(SYS_sync_file_range, fd, 0, 0, 0));
    TELL(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    TELL(readahead(fd, 0, 100));
    TELL(close(fd));
    show_file("f");
    (void) status;
}

/* All that changes names, on the least stack that a thread can have. */
static void *change_names(void *unused)
{
    (void) unused;
    TELL(mkdir(in_d("a"), 0755));
    TELL(mkdir(in_d("a/b"), 0755));
    put(in_d("a/f"), "content");
    TELL(symlink("f", in_d("a/link")));
    TELL(rename(in_d("a/f"), in_d("a/b/g")));
    TELL(rename(in_d("a/none"), in_d("a/b/h")));
    TELL(rename(in_d("given"), in_d("none/h")));
    TELL(rename(in_d("a/b"), in_d("a/c")));
    TELL(rename(in_d("a/link"), in_d("a/d")));
    TELL(rename(in_d("a/c"), in_d("a/link")));
    TELL(rename(in_d("a/d"), in_d("a/c")));
    TELL(rename(in_d("a/c"), "/nowhere/at/all"));
    TELL(rename("/nowhere/at/all", in_d("a/c")));
    TELL(link(in_d("none"), in_d("a/d")));
    TELL(truncate(in_d("a/link/g"), 3));
    TELL(chmod(in_d("a/link/g"), 0600));
    TELL(utimensat(AT_FDCWD, in_d("a/link/g"), NULL, 0));
    TELL(access(in_d("a/link/g"), R_OK));
    TELL(chdir(in_d("a")));
    TELL(rename("c", "relative"));
    TELL(mkdir("link/deeper", 0755));
    TELL(rename("link/g", "link/deeper/g"));
    TELL(rmdir("link"));
    TELL(unlink("relative"));
    TELL(unlink("link/deeper/g"));
    TELL(rmdir("link/deeper"));
    TELL(mknod("node", S_IFREG | 0600, 0));
    TELL(unlinkat(AT_FDCWD, "link", AT_REMOVEDIR));
    return NULL;
}

CASE(names_on_the_smallest_stack)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    OK(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0);
    OK(pthread_create(&thread, &attributes, change_names, NULL) == 0);
    OK(pthread_join(thread, NULL) == 0);
}
