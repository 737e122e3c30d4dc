/* Every name of a call: the 64 variants, the old __x ones, the fortified ones, the *at ones. */
#include "client.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>

static void *symbol(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

static void read_and_show(const char *label, int fd)
{
    char buffer[100];
    ssize_t bytes = read(fd, buffer, sizeof(buffer));
    SHOW("%s: %zd %.*s", label, bytes, bytes > 0 ? (int) bytes : 0, buffer);
    close(fd);
}

CASE(open_family_reads)
{
    int dir = open(in_tree("text"), O_RDONLY | O_DIRECTORY);
    read_and_show("open", open(in_tree("text/hello.txt"), O_RDONLY));
    read_and_show("open64", open64(in_tree("text/hello.txt"), O_RDONLY));
    read_and_show("openat", openat(dir, "hello.txt", O_RDONLY));
    read_and_show("openat64", openat64(dir, "hello.txt", O_RDONLY));
    read_and_show("openat AT_FDCWD", openat(AT_FDCWD, in_tree("text/hello.txt"), O_RDONLY));
}

CASE(fortified_open_names_read)
{
    int (*two)(const char *, int);
    int (*at)(int, const char *, int);
    const char *names[] = {"__open_2", "__open64_2", "__open64", "__open", NULL};
    for (int i = 0; names[i] != NULL; i++) {
        *(void **) &two = symbol(names[i]);
        read_and_show(names[i], two(in_tree("text/hello.txt"), O_RDONLY));
    }
    int dir = open(in_tree("text"), O_RDONLY);
    *(void **) &at = symbol("__openat_2");
    read_and_show("__openat_2", at(dir, "x", O_RDONLY));
    *(void **) &at = symbol("__openat64_2");
    read_and_show("__openat64_2", at(dir, "x", O_RDONLY));
}

CASE(fortified_read_names)
{
    ssize_t (*read_chk)(int, void *, size_t, size_t);
    ssize_t (*pread_chk)(int, void *, size_t, off_t, size_t);
    char buffer[64];
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    *(void **) &read_chk = symbol("__read_chk");
    SHOW("__read_chk %zd %.5s", read_chk(fd, buffer, 5, sizeof(buffer)), buffer);
    const char *names[] = {"__pread_chk", "__pread64_chk", NULL};
    for (int i = 0; names[i] != NULL; i++) {
        *(void **) &pread_chk = symbol(names[i]);
        SHOW("%s %zd %.5s", names[i], pread_chk(fd, buffer, 5, 6, sizeof(buffer)), buffer);
    }
}

CASE(xstat_names)
{
    const char *names[] = {"__xstat", "__xstat64", "__lxstat", "__lxstat64", NULL};
    for (int i = 0; names[i] != NULL; i++) {
        int (*call)(int, const char *, struct stat *);
        struct stat status;
        *(void **) &call = symbol(names[i]);
        OK(call != NULL && call(1, in_tree("links/to_file"), &status) == 0);
        show_stat(names[i], &status);
        FAILS(ENOENT, call(1, in_tree("none"), &status));
    }
    const char *with_fd[] = {"__fxstat", "__fxstat64", NULL};
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    for (int i = 0; with_fd[i] != NULL; i++) {
        int (*call)(int, int, struct stat *);
        struct stat status;
        *(void **) &call = symbol(with_fd[i]);
        OK(call != NULL && call(1, fd, &status) == 0);
        show_stat(with_fd[i], &status);
    }
    const char *at[] = {"__fxstatat", "__fxstatat64", NULL};
    int dir = open(in_tree("text"), O_RDONLY);
    for (int i = 0; at[i] != NULL; i++) {
        int (*call)(int, int, const char *, struct stat *, int);
        struct stat status;
        *(void **) &call = symbol(at[i]);
        OK(call != NULL && call(1, dir, "hello.txt", &status, 0) == 0);
        show_stat(at[i], &status);
    }
}

CASE(stat_names)
{
    struct stat status;
    struct stat64 large;
    OK(stat(in_tree("links/to_file"), &status) == 0);
    show_stat("stat", &status);
    OK(lstat(in_tree("links/to_file"), &status) == 0);
    show_stat("lstat", &status);
    OK(stat64(in_tree("bin/big.bin"), &large) == 0);
    SHOW("stat64 %lld", (long long) large.st_size);
    OK(lstat64(in_tree("links/up"), &large) == 0);
    SHOW("lstat64 %lld", (long long) large.st_size);
    OK(fstat64(open(in_tree("bin/mid.bin"), O_RDONLY), &large) == 0);
    SHOW("fstat64 %lld", (long long) large.st_size);
}

CASE(fstatat_flags)
{
    struct stat status;
    int dir = open(in_tree("links"), O_RDONLY | O_DIRECTORY);
    int file = open(in_tree("text/hello.txt"), O_RDONLY);
    OK(fstatat(dir, "to_file", &status, 0) == 0);
    show_stat("follows", &status);
    OK(fstatat(dir, "to_file", &status, AT_SYMLINK_NOFOLLOW) == 0);
    show_stat("nofollow", &status);
    OK(fstatat(file, "", &status, AT_EMPTY_PATH) == 0);
    show_stat("empty path", &status);
    OK(fstatat(dir, "", &status, AT_EMPTY_PATH) == 0);
    show_stat("empty path of a directory", &status);
    FAILS(ENOENT, fstatat(file, "", &status, 0));
    FAILS(EINVAL, fstatat(dir, "to_file", &status, 0x40000000));
    FAILS(ENOTDIR, fstatat(file, "x", &status, 0));
    FAILS(EBADF, fstatat(-5, "x", &status, 0));
}

static void show_statx(const char *label, int dir, const char *path, int flags)
{
    struct statx facts;
    memset(&facts, 0, sizeof(facts));
    if (statx(dir, path, flags, STATX_BASIC_STATS, &facts) != 0) {
        SHOW("%s: %s", label, strerrorname_np(errno));
        return;
    }
    SHOW("%s: mode %o links %u size %lld mtime %lld.%09u mask %d", label, facts.stx_mode, facts.stx_nlink,
         S_ISDIR(facts.stx_mode) ? -1LL : (long long) facts.stx_size, (long long) facts.stx_mtime.tv_sec,
         facts.stx_mtime.tv_nsec, (facts.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
}

CASE(statx_forms)
{
    int dir = open(in_tree("links"), O_RDONLY);
    int file = open(in_tree("text/hello.txt"), O_RDONLY);
    show_statx("absolute", AT_FDCWD, in_tree("text/hello.txt"), 0);
    show_statx("link", dir, "to_file", AT_SYMLINK_NOFOLLOW);
    show_statx("followed", dir, "to_file", AT_STATX_DONT_SYNC);
    show_statx("force sync", dir, "to_dir", AT_STATX_FORCE_SYNC);
    show_statx("empty path", file, "", AT_EMPTY_PATH);
    show_statx("missing", dir, "none", 0);
    show_statx("not a directory", file, "none", 0);
    show_statx("loop", dir, "loop_a", 0);
    show_statx("bad flags", dir, "to_file", 0x40000000);
    SHOW("device %d", ({ struct statx a, b; statx(file, "", AT_EMPTY_PATH, STATX_INO, &a); statx(AT_FDCWD,
         in_tree("hard/one"), 0, STATX_INO, &b); a.stx_dev_minor == b.stx_dev_minor && a.stx_ino != b.stx_ino; }));
}

CASE(access_family)
{
    int dir = open(in_tree("text"), O_RDONLY);
    int (*euid)(const char *, int);
    *(void **) &euid = symbol("euidaccess");
    SHOW("access %d eaccess %d euidaccess %d", access(in_tree("text/x"), R_OK), eaccess(in_tree("text"), X_OK),
         euid(in_tree("text/x"), F_OK));
    SHOW("faccessat %d", faccessat(dir, "x", R_OK, 0));
    SHOW("effective %d", faccessat(dir, "x", R_OK, AT_EACCESS));
    SHOW("nofollow %d", faccessat(AT_FDCWD, in_tree("links/dangling"), F_OK, AT_SYMLINK_NOFOLLOW));
    FAILS(ENOENT, access(in_tree("none"), F_OK));
    FAILS(ENOENT, access(in_tree("links/dangling"), F_OK));
    FAILS(ENOTDIR, access(in_tree("text/x/y"), F_OK));
    FAILS(ELOOP, access(in_tree("links/loop_a"), F_OK));
    FAILS(EINVAL, access(in_tree("text/x"), 0777));
    FAILS(EACCES, access(in_tree("text/x"), X_OK));
    FAILS(ENOENT, faccessat(dir, "none", F_OK, 0));
    FAILS(EBADF, faccessat(-7, "none", F_OK, 0));
}

CASE(readlink_family)
{
    char target[64];
    ssize_t (*chk)(const char *, char *, size_t, size_t);
    int dir = open(in_tree("links"), O_RDONLY);
    memset(target, '!', sizeof(target));
    SHOW("readlink %zd %.20s", readlink(in_tree("links/to_file"), target, sizeof(target)), target);
    memset(target, '!', sizeof(target));
    SHOW("truncated %zd %.8s", readlink(in_tree("links/to_file"), target, 4), target);
    SHOW("readlinkat %zd %.3s", readlinkat(dir, "to_dir", target, sizeof(target)), target);
    *(void **) &chk = symbol("__readlink_chk");
    SHOW("__readlink_chk %zd", chk(in_tree("links/self"), target, 10, sizeof(target)));
    FAILS(EINVAL, readlink(in_tree("text/x"), target, 10));
    FAILS(EINVAL, readlink(in_tree("links/to_file"), target, 0));
    FAILS(ENOENT, readlinkat(dir, "none", target, 10));
    FAILS(ENOENT, readlinkat(dir, "", target, 10));
    int link = open(in_tree("links/to_file"), O_PATH | O_NOFOLLOW);
    SHOW("of a link's descriptor %zd", readlinkat(link, "", target, 64));
}

CASE(realpath_family)
{
    char buffer[PATH_MAX];
    char *(*chk)(const char *, char *, size_t);
    SHOW("realpath %s", realpath(in_tree("links/deep"), buffer));
    char *made = realpath(in_tree("links/to_dir/../text/./x"), NULL);
    SHOW("allocated %s", made);
    free(made);
    made = canonicalize_file_name(in_tree("links/up"));
    SHOW("canonicalize_file_name %s", made);
    *(void **) &chk = symbol("__realpath_chk");
    SHOW("__realpath_chk %s", chk(in_tree("links/to_file"), buffer, sizeof(buffer)));
    FAILS(ENOENT, realpath(in_tree("none/x"), buffer));
    FAILS(ELOOP, realpath(in_tree("links/loop_a"), buffer));
    FAILS(ENOTDIR, realpath(in_tree("text/x/.."), buffer));
    FAILS(EINVAL, realpath(NULL, buffer));
    FAILS(ENOENT, realpath("", buffer));
}

CASE(getcwd_family)
{
    char buffer[PATH_MAX];
    char *(*chk)(char *, size_t, size_t);
    OK(chdir(in_tree("links/to_dir")) == 0);
    SHOW("getcwd %s", getcwd(buffer, sizeof(buffer)));
    char *made = getcwd(NULL, 0);
    SHOW("allocated %s", made);
    made = get_current_dir_name();
    SHOW("get_current_dir_name %s", made);
    *(void **) &chk = symbol("__getcwd_chk");
    SHOW("__getcwd_chk %s", chk(buffer, sizeof(buffer), sizeof(buffer)));
    FAILS(ERANGE, getcwd(buffer, 2));
}

CASE(pread_family)
{
    char buffer[32] = {0};
    struct iovec parts[2] = {{buffer, 3}, {buffer + 10, 4}};
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    SHOW("pread %zd %.3s", pread(fd, buffer, 3, 1), buffer);
    SHOW("pread64 %zd %.3s", pread64(fd, buffer, 3, 2), buffer);
    SHOW("preadv %zd %.3s %.4s", preadv(fd, parts, 2, 0), buffer, buffer + 10);
    SHOW("preadv64 %zd %.3s", preadv64(fd, parts, 2, 3), buffer);
    SHOW("preadv2 %zd", preadv2(fd, parts, 2, 6, 0));
    SHOW("preadv2 at the offset %zd %.3s", preadv2(fd, parts, 2, -1, 0), buffer);
    SHOW("preadv64v2 %zd", preadv64v2(fd, parts, 2, 6, 0));
    SHOW("readv %zd", readv(fd, parts, 2));
    SHOW("lseek64 %lld", (long long) lseek64(fd, 0, SEEK_CUR));
    FAILS(EOPNOTSUPP, preadv2(fd, parts, 2, 0, 0x4000));
    FAILS(EINVAL, readv(fd, parts, -1));
}

CASE(statvfs_family)
{
    struct statvfs vfs;
    struct statfs fs;
    struct statvfs64 large;
    OK(statvfs(in_tree("text"), &vfs) == 0 && vfs.f_namemax == 255);
    OK(statvfs64(in_tree("text/x"), &large) == 0);
    OK(statfs(in_tree("text/x"), &fs) == 0 && fs.f_bsize > 0);
    OK(fstatfs(open(in_tree("text/x"), O_RDONLY), &fs) == 0);
    OK(fstatvfs(open(in_tree("text"), O_RDONLY), &vfs) == 0);
    FAILS(ENOENT, statvfs(in_tree("none"), &vfs));
    FAILS(ENOTDIR, statfs(in_tree("text/x/y"), &fs));
    SHOW("done");
}

CASE(xattr_family)
{
    char buffer[64];
    int fd = open(in_tree("text/x"), O_RDONLY);
    SHOW("list %zd %zd %zd", listxattr(in_tree("text/x"), buffer, 64), llistxattr(in_tree("links/up"), buffer, 64),
         flistxattr(fd, buffer, 64));
    FAILS(ENODATA, getxattr(in_tree("text/x"), "user.a", buffer, 64));
    FAILS(ENODATA, lgetxattr(in_tree("text/x"), "user.a", buffer, 64));
    FAILS(ENODATA, fgetxattr(fd, "user.a", buffer, 64));
    FAILS(ENOENT, getxattr(in_tree("none"), "user.a", buffer, 64));
}

CASE(raw_system_calls_do_not_lie)
{
    /* What slips past the shim must fail or be right; through syscall() it is meant to be right. */
    char buffer[20] = {0};
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    long bytes = syscall(SYS_read, fd, buffer, 5);
    SHOW("read %s", bytes == 5 ? buffer : bytes < 0 ? "hello" : "wrong");
    struct statx facts;
    long rc = syscall(SYS_statx, AT_FDCWD, in_tree("text/hello.txt"), 0, STATX_SIZE, &facts);
    SHOW("statx %ld %lld", rc, (long long) facts.stx_size);
}

CASE(openat2_by_syscall)
{
    struct { unsigned long long flags, mode, resolve; } how = {O_RDONLY, 0, 0};
    char buffer[20] = {0};
    int fd = syscall(SYS_openat2, AT_FDCWD, in_tree("text/hello.txt"), &how, sizeof(how));
    SHOW("opened %d", fd >= 0);
    SHOW("read %zd %s", read(fd, buffer, 5), buffer);
}

CASE(path_edge_spellings)
{
    const char *forms[] = {"text/./hello.txt", "text//hello.txt", "./text/hello.txt", "text/../text/hello.txt",
                           "text/sub/../hello.txt", "hard/../links/../text/hello.txt", NULL};
    for (int i = 0; forms[i] != NULL; i++) {
        read_and_show(forms[i], open(in_tree(forms[i]), O_RDONLY));
    }
    FAILS(ENOENT, open(in_tree("none/../text/hello.txt"), O_RDONLY));
    FAILS(ENOTDIR, open(in_tree("text/x/../hello.txt"), O_RDONLY));
    FAILS(ENOTDIR, open(in_tree("text/hello.txt/"), O_RDONLY));
    FAILS(ENOTDIR, open(in_tree("text/hello.txt/."), O_RDONLY));
    FAILS(ENOENT, open(in_tree("text/ hello.txt"), O_RDONLY));
    FAILS(ENOENT, open(in_tree("TEXT/hello.txt"), O_RDONLY));
    FAILS(ENOENT, open("", O_RDONLY));
}

CASE(errno_untouched_on_success)
{
    struct stat status;
    char buffer[10];
    errno = 77;
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    stat(in_tree("text/hello.txt"), &status);
    read(fd, buffer, 5);
    lseek(fd, 0, SEEK_SET);
    fstat(fd, &status);
    close(fd);
    access(in_tree("text"), R_OK);
    SHOW("errno %d", errno);
}

CASE(close_returns)
{
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    SHOW("close %d", close(fd));
    FAILS(EBADF, close(fd));
    FAILS(EBADF, close(-1));
    FAILS(EBADF, fcntl(fd, F_GETFD));
}
