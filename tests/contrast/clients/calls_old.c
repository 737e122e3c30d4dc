/*
 * Names that this libc no longer gives to new programs, and that wheels and older builds import: the
 * linker is told to take them (.symver), as it took them when those programs were built.
 */
#include "calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <ftw.h>
#include <glob.h>
#include <spawn.h>
#include <stdarg.h>

#define OLD(NAME) OLD_AT(NAME, NAME, "GLIBC_2.2.5")
#define OLD_AT(AS, NAME, VERSION) __asm__(".symver old_" #AS ", " #NAME "@" VERSION)

int old_xstat(int version, const char *path, struct stat *status);
int old_xstat64(int version, const char *path, struct stat64 *status);
int old_lxstat(int version, const char *path, struct stat *status);
int old_lxstat64(int version, const char *path, struct stat64 *status);
int old_fxstat(int version, int fd, struct stat *status);
int old_fxstat64(int version, int fd, struct stat64 *status);
int old_fxstatat(int version, int dir, const char *path, struct stat *status, int flags);
int old_fxstatat64(int version, int dir, const char *path, struct stat64 *status, int flags);
int old_xmknod(int version, const char *path, mode_t mode, dev_t *device);
int old_xmknodat(int version, int dir, const char *path, mode_t mode, dev_t *device);
int old_fcntl(int fd, int command, ...);
int old_glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found);
int old_glob64(const char *pattern, int flags, int (*error)(const char *, int), glob64_t *found);
int old_nftw(const char *path, __nftw_func_t visit, int depth, int flags);
int old_nftw64(const char *path, __nftw64_func_t visit, int depth, int flags);
char *old_realpath(const char *path, char *resolved);
int old_posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                    const posix_spawnattr_t *attributes, char *const argv[], char *const env[]);

OLD_AT(xstat, __xstat, "GLIBC_2.2.5");
OLD_AT(xstat64, __xstat64, "GLIBC_2.2.5");
OLD_AT(lxstat, __lxstat, "GLIBC_2.2.5");
OLD_AT(lxstat64, __lxstat64, "GLIBC_2.2.5");
OLD_AT(fxstat, __fxstat, "GLIBC_2.2.5");
OLD_AT(fxstat64, __fxstat64, "GLIBC_2.2.5");
OLD_AT(fxstatat, __fxstatat, "GLIBC_2.4");
OLD_AT(fxstatat64, __fxstatat64, "GLIBC_2.4");
OLD_AT(xmknod, __xmknod, "GLIBC_2.2.5");
OLD_AT(xmknodat, __xmknodat, "GLIBC_2.4");
OLD(fcntl);
OLD(glob);
OLD(glob64);
OLD(nftw);
OLD(nftw64);
OLD(realpath);
OLD(posix_spawn);

/* A directory of outputs does not count the ones in it among its links. */
static void show_old(const char *label, struct stat *status)
{
    if (S_ISDIR(status->st_mode)) {
        status->st_nlink = 0;
    }
    show_stat(label, status);
}

#define SHOWS_STAT(CALL)                                                                           \
    do {                                                                                           \
        memset(&status, 0xee, sizeof(status));                                                     \
        TELL(CALL);                                                                                \
        if (status.st_mode != 0xeeeeeeee) {                                                        \
            show_old(#CALL, (struct stat *) &status);                                             \
        }                                                                                          \
    } while (0)

CASE(xstat)
{
    struct stat status;
    SHOWS_STAT(old_xstat(1, in_r("small"), &status));
    SHOWS_STAT(old_xstat(1, in_r("to_file"), &status));
    SHOWS_STAT(old_xstat(1, in_r("sub"), &status));
    SHOWS_STAT(old_xstat(1, in_r("none"), &status));
    SHOWS_STAT(old_xstat(1, in_r("small/x"), &status));
    SHOWS_STAT(old_xstat(1, in_r("loop_a"), &status));
    TELL(old_xstat(1, in_r("small"), (struct stat *) 16));
}

CASE(xstat64)
{
    struct stat64 status;
    SHOWS_STAT(old_xstat64(1, in_r("small"), &status));
    SHOWS_STAT(old_xstat64(1, in_r("to_dir"), &status));
    SHOWS_STAT(old_xstat64(1, in_r("dangling"), &status));
}

CASE(lxstat)
{
    struct stat status;
    SHOWS_STAT(old_lxstat(1, in_r("to_file"), &status));
    SHOWS_STAT(old_lxstat(1, in_r("dangling"), &status));
    SHOWS_STAT(old_lxstat(1, in_r("to_dir/inner"), &status));
    SHOWS_STAT(old_lxstat(1, in_r("none"), &status));
}

CASE(lxstat64)
{
    struct stat64 status;
    SHOWS_STAT(old_lxstat64(1, in_r("to_file"), &status));
    SHOWS_STAT(old_lxstat64(1, in_r("mid.bin"), &status));
    SHOWS_STAT(old_lxstat64(1, in_r("none"), &status));
}

CASE(fxstat)
{
    struct stat status;
    SHOWS_STAT(old_fxstat(1, reader("small"), &status));
    SHOWS_STAT(old_fxstat(1, open(in_r("sub"), O_RDONLY), &status));
    OK(old_fxstat(1, open(in_r("to_file"), O_PATH | O_NOFOLLOW), &status) == 0);
    SHOW("%o %ld", status.st_mode, (long) status.st_size);
    SHOWS_STAT(old_fxstat(1, -1, &status));
}

CASE(fxstat64)
{
    struct stat64 status;
    SHOWS_STAT(old_fxstat64(1, reader("mid.bin"), &status));
    SHOWS_STAT(old_fxstat64(1, 999, &status));
}

CASE(fxstatat)
{
    struct stat status;
    int dir = open(in_r("sub"), O_RDONLY);
    SHOWS_STAT(old_fxstatat(1, dir, "inner", &status, 0));
    SHOWS_STAT(old_fxstatat(1, dir, "back", &status, AT_SYMLINK_NOFOLLOW));
    SHOWS_STAT(old_fxstatat(1, dir, "", &status, AT_EMPTY_PATH));
    SHOWS_STAT(old_fxstatat(1, dir, "none", &status, 0));
    SHOWS_STAT(old_fxstatat(1, reader("small"), "x", &status, 0));
    SHOWS_STAT(old_fxstatat(1, AT_FDCWD, in_r("x"), &status, 0x40000000));
}

CASE(fxstatat64)
{
    struct stat64 status;
    int dir = open(in_r("sub"), O_RDONLY);
    SHOWS_STAT(old_fxstatat64(1, dir, "deep/leaf", &status, 0));
    SHOWS_STAT(old_fxstatat64(1, dir, "../small", &status, 0));
    SHOWS_STAT(old_fxstatat64(1, -1, "x", &status, 0));
}

CASE(stats_of_outputs)
{
    struct stat status;
    put(in_d("f"), "12345");
    OK(symlink("f", in_d("l")) == 0);
    OK(old_xstat(1, in_d("f"), &status) == 0);
    SHOW("%o %ld", status.st_mode, (long) status.st_size);
    OK(old_lxstat(1, in_d("l"), &status) == 0);
    SHOW("%d", S_ISLNK(status.st_mode));
    int fd = open(in_d("f"), O_RDWR | O_APPEND);
    OK(write(fd, "678", 3) == 3 && old_fxstat(1, fd, &status) == 0);
    SHOW("%ld", (long) status.st_size);
    TELL(close(fd));
    OK(old_xstat(1, in_d("f"), &status) == 0);
    SHOW("%ld", (long) status.st_size);
}

CASE(xmknod)
{
    dev_t none = 0;
    struct stat status;
    TELL(old_xmknod(0, in_d("file"), S_IFREG | 0640, &none));
    TELL(old_xmknod(0, in_d("file"), S_IFREG | 0640, &none));
    TELL(old_xmknod(0, in_d("none/file"), S_IFREG | 0600, &none));
    TELL(old_xmknod(0, in_d("given"), S_IFREG | 0600, &none));
    OK(lstat(in_d("file"), &status) == 0);
    SHOW("%o", status.st_mode);
}

CASE(xmknodat)
{
    dev_t none = 0;
    int dir = open(in_d(""), O_RDONLY);
    TELL(old_xmknodat(0, dir, "file", S_IFREG | 0600, &none));
    TELL(old_xmknodat(0, dir, "file", S_IFREG | 0600, &none));
    TELL(old_xmknodat(0, dir, "sub/file", S_IFREG | 0600, &none));
    TELL(old_xmknodat(0, -1, "file", S_IFREG | 0600, &none));
    TELL(old_xmknodat(0, AT_FDCWD, in_d("other"), S_IFREG | 0600, &none));
}

CASE(fcntl_before_fcntl64)
{
    int fd = reader("small");
    TELL(old_fcntl(fd, F_GETFL));
    TELL(old_fcntl(fd, F_SETFL, O_NONBLOCK));
    TELL(old_fcntl(fd, F_GETFL));
    TELL(old_fcntl(fd, F_SETFD, FD_CLOEXEC));
    TELL(fcntl(fd, F_GETFD));
    TELL(old_fcntl(fd, F_DUPFD, 60));
    show_next("sixty", 60);
}

CASE(globs)
{
    glob_t found = {0};
    glob64_t large = {0};
    TELL(old_glob(in_r("s*"), 0, NULL, &found));
    for (size_t i = 0; i < found.gl_pathc; i++) {
        SHOW("  %s", found.gl_pathv[i]);
    }
    globfree(&found);
    TELL(old_glob64(in_r("many/f00*"), GLOB_MARK, NULL, &large));
    SHOW("%zu", large.gl_pathc);
    TELL(old_glob(in_r("none*"), 0, NULL, &found));
}

static int seen;

static int visit(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    seen++;
    return 0;
}

CASE(walks)
{
    TELL(old_nftw(in_r("sub"), visit, 5, FTW_PHYS));
    TELL(seen);
    TELL(old_nftw64(in_r("many"), (__nftw64_func_t) visit, 5, FTW_PHYS));
    TELL(seen);
    TELL(old_nftw(in_r("none"), visit, 5, FTW_PHYS));
}

CASE(realpath_that_does_not_allocate)
{
    char text[PATH_MAX];
    TELL_POINTER(old_realpath(in_r("to_dir/back"), text));
    SHOW("%s", text);
    TELL_POINTER(old_realpath(in_r("none"), text));
}

CASE(spawn)
{
    extern char **environ;
    char *argv[] = {"cat", (char *) in_r("small"), NULL};
    pid_t child = -1;
    fflush(NULL);
    int code = old_posix_spawn(&child, "/bin/cat", NULL, NULL, argv, environ);
    show_end("cat", child);
    SHOW("%s", strerrorname_np(code));
}

/* As in programs that look calls up by name. */
CASE(found_by_name)
{
    const char *names[] = {"__xstat", "__xstat64", "__lxstat", "__lxstat64"};
    for (int i = 0; i < 4; i++) {
        struct stat status;
        int (*call)(int, const char *, struct stat *) = dlsym(RTLD_DEFAULT, names[i]);
        SHOW("%s: %d", names[i], call == NULL ? -2 : call(1, in_r("small"), &status));
    }
    ssize_t (*chk)(int, void *, size_t, size_t) = dlsym(RTLD_DEFAULT, "__read_chk");
    char text[16] = {0};
    SHOW("%zd %s", chk(reader("small"), text, 5, sizeof(text)), text);
}
