/* Calls on paths: open in all names, stat, statx, access, readlink, realpath, chdir, statfs, xattr. */
#include "calls.h"

#include <dirent.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/inotify.h>
#include <sys/fanotify.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

static void show_open(const char *label, int fd)
{
    int code = errno;
    if (fd < 0) {
        SHOW("%s: %s", label, strerrorname_np(code));
        return;
    }
    show_next(label, fd);
    close(fd);
}

#define OPENS(CALL) (errno = 0, show_open(#CALL, CALL))

static long openat2(int dir, const char *path, unsigned long flags, unsigned long resolve)
{
    struct open_how how = {.flags = flags, .resolve = resolve};
    return syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

CASE(openat2_beneath)
{
    int dir = open(in_r("sub"), O_PATH | O_DIRECTORY);
    OPENS(openat2(dir, "inner", O_RDONLY, RESOLVE_BENEATH));
    OPENS(openat2(dir, "deep/../inner", O_RDONLY, RESOLVE_BENEATH));
    OPENS(openat2(dir, "../small", O_RDONLY, RESOLVE_BENEATH));
    OPENS(openat2(dir, "deep/../../small", O_RDONLY, RESOLVE_BENEATH));
    OPENS(openat2(dir, "back", O_RDONLY, RESOLVE_BENEATH));
    OPENS(openat2(dir, in_r("small"), O_RDONLY, RESOLVE_BENEATH));
    OPENS(openat2(dir, "none", O_RDONLY, RESOLVE_BENEATH));
}

CASE(openat2_in_root)
{
    int dir = open(in_r(""), O_PATH | O_DIRECTORY);
    OPENS(openat2(dir, "small", O_RDONLY, RESOLVE_IN_ROOT));
    OPENS(openat2(dir, "/small", O_RDONLY, RESOLVE_IN_ROOT));
    OPENS(openat2(dir, "/../../sub/inner", O_RDONLY, RESOLVE_IN_ROOT));
    OPENS(openat2(dir, "to_dir/inner", O_RDONLY, RESOLVE_IN_ROOT));
    OPENS(openat2(dir, "sub/back", O_RDONLY, RESOLVE_IN_ROOT));
    OPENS(openat2(dir, "up/small", O_RDONLY, RESOLVE_IN_ROOT));
    OPENS(openat2(dir, "out", O_RDONLY, RESOLVE_IN_ROOT));
}

CASE(openat2_no_symlinks)
{
    int dir = open(in_r(""), O_RDONLY | O_DIRECTORY);
    OPENS(openat2(dir, "small", O_RDONLY, RESOLVE_NO_SYMLINKS));
    OPENS(openat2(dir, "to_file", O_RDONLY, RESOLVE_NO_SYMLINKS));
    OPENS(openat2(dir, "to_dir/inner", O_RDONLY, RESOLVE_NO_SYMLINKS));
    TELL(openat2(dir, "to_file", O_PATH | O_NOFOLLOW, RESOLVE_NO_SYMLINKS) >= 0 ? 0 : -1);
    OPENS(openat2(dir, "loop_a", O_RDONLY, RESOLVE_NO_SYMLINKS));
}

CASE(openat2_no_magiclinks)
{
    char path[64];
    int fd = reader("small");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    OPENS(openat2(AT_FDCWD, in_r("small"), O_RDONLY, RESOLVE_NO_MAGICLINKS));
    OPENS(openat2(AT_FDCWD, in_r("to_file"), O_RDONLY, RESOLVE_NO_MAGICLINKS));
    OPENS(openat2(AT_FDCWD, path, O_RDONLY, RESOLVE_NO_MAGICLINKS));
    OPENS(openat2(AT_FDCWD, path, O_RDONLY, 0));
}

CASE(openat2_no_xdev)
{
    int dir = open(in_r("sub"), O_RDONLY | O_DIRECTORY);
    OPENS(openat2(dir, "inner", O_RDONLY, RESOLVE_NO_XDEV));
    OPENS(openat2(dir, "../small", O_RDONLY, RESOLVE_NO_XDEV));
    OPENS(openat2(dir, "/proc/self/status", O_RDONLY, RESOLVE_NO_XDEV) < 0 ? -1 : -2);
}

CASE(openat2_refusals)
{
    struct open_how how = {.flags = O_RDONLY};
    char large[100] = {0};
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("small"), &how, sizeof(how) - 1));
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("small"), &how, 0));
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("small"), large, sizeof(large)) < 0 ? -1 : 0);
    large[90] = 1;
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("small"), large, sizeof(large)));
    TELL(openat2(AT_FDCWD, in_r("small"), O_RDONLY, 1 << 20));
    TELL(openat2(AT_FDCWD, in_r("small"), O_RDONLY, RESOLVE_BENEATH | RESOLVE_IN_ROOT));
    TELL(openat2(AT_FDCWD, in_r("small"), 1UL << 40, 0));
    how.mode = 0644;
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("small"), &how, sizeof(how)));
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("none"), (void *) 16, sizeof(how)));
    TELL(openat2(-1, "small", O_RDONLY, 0));
    TELL(openat2(reader("small"), "small", O_RDONLY, 0));
}

CASE(open_by_syscall)
{
    OPENS(syscall(SYS_open, in_r("small"), O_RDONLY));
    OPENS(syscall(SYS_openat, AT_FDCWD, in_r("to_dir/inner"), O_RDONLY, 0));
    OPENS(syscall(SYS_open, in_r("none"), O_RDONLY));
    OPENS(syscall(SYS_openat, AT_FDCWD, in_r("small/x"), O_RDONLY, 0));
    TELL(syscall(SYS_access, in_r("small"), R_OK));
    TELL(syscall(SYS_access, in_r("none"), R_OK));
}

CASE(open_flags_of_reading)
{
    const int flags[] = {O_NOCTTY, O_NONBLOCK, O_SYNC, O_DSYNC, O_LARGEFILE, O_ASYNC, O_NOATIME, O_APPEND};
    for (int i = 0; i < 8; i++) {
        int fd = open(in_r("small"), O_RDONLY | flags[i]);
        SHOW("%d: F_GETFL %x", i, fcntl(fd, F_GETFL));
        show_next("reads", fd);
        close(fd);
    }
}

CASE(open_direct)
{
    int fd = open(in_r("page.bin"), O_RDONLY | O_DIRECT);
    if (fd >= 0) {
        void *room = aligned_alloc(4096, 4096);
        SHOW("read %d", read(fd, room, 4096) == 4096);
        close(fd);
    }
    SHOW("done");
}

CASE(open_access_mode_three)
{
    int fd = open(in_r("small"), O_ACCMODE);
    SHOW("opened %d", fd >= 0 || errno == EROFS);
    show_next("reads", open(in_r("small"), O_RDONLY));
}

CASE(open_directory_flag)
{
    OPENS(open(in_r("small"), O_RDONLY | O_DIRECTORY));
    OPENS(open(in_r("to_dir"), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    OPENS(open(in_r("to_dir/"), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    OPENS(open(in_r("none"), O_RDONLY | O_DIRECTORY));
    OPENS(open(in_r("sub"), O_RDONLY | O_DIRECTORY));
    OPENS(open(in_r("sub"), O_WRONLY));
    OPENS(open(in_r("sub"), O_RDWR | O_DIRECTORY));
}

CASE(open_nofollow)
{
    OPENS(open(in_r("small"), O_RDONLY | O_NOFOLLOW));
    OPENS(open(in_r("to_file"), O_RDONLY | O_NOFOLLOW));
    OPENS(open(in_r("to_dir/inner"), O_RDONLY | O_NOFOLLOW));
    OPENS(open(in_r("dangling"), O_RDONLY | O_NOFOLLOW));
    OPENS(open(in_r("chain44"), O_RDONLY | O_NOFOLLOW));
}

CASE(open_of_links)
{
    OPENS(open(in_r("to_file"), O_RDONLY));
    OPENS(open(in_r("to_file_slash"), O_RDONLY));
    OPENS(open(in_r("dangling"), O_RDONLY));
    OPENS(open(in_r("loop_a"), O_RDONLY));
    OPENS(open(in_r("chain0"), O_RDONLY));
    OPENS(open(in_r("chain5"), O_RDONLY));
    OPENS(open(in_r("chain6"), O_RDONLY));
    OPENS(open(in_r("sub/back"), O_RDONLY));
    OPENS(open(in_r("to_dir/back"), O_RDONLY));
    int out = open(in_r("out"), O_RDONLY);
    SHOW("out %d", out >= 0);
}

CASE(open_path_descriptor)
{
    char text[8];
    struct stat status;
    int fd = open(in_r("small"), O_PATH);
    TELL(read(fd, text, 1));
    TELL(pread(fd, text, 1, 0));
    TELL(lseek(fd, 0, SEEK_SET));
    TELL(fstat(fd, &status));
    SHOW("size %ld", (long) status.st_size);
    SHOW("flags %x", fcntl(fd, F_GETFL));
    TELL(fchmod(fd, 0644));
    TELL(fsync(fd));
    TELL(ftruncate(fd, 0));
    TELL(fgetxattr(fd, "user.a", text, 1));
    TELL(fcntl(fd, F_SETFL, O_NONBLOCK));
    TELL(close(dup(fd)));
    TELL(faccessat(fd, "", R_OK, AT_EMPTY_PATH));
}

CASE(open_path_of_a_link)
{
    char text[64] = {0};
    struct stat status;
    int fd = open(in_r("to_file"), O_PATH | O_NOFOLLOW);
    TELL(fstat(fd, &status));
    SHOW("link %d", S_ISLNK(status.st_mode));
    TELL(readlinkat(fd, "", text, sizeof(text)));
    SHOW("%s", text);
    TELL(fstatat(fd, "", &status, AT_EMPTY_PATH));
    TELL(openat(fd, "", O_RDONLY));
    TELL(openat(fd, "x", O_RDONLY));
    TELL(read(fd, text, 1));
}

CASE(open_path_directory)
{
    int dir = open(in_r("sub"), O_PATH);
    struct stat status;
    OPENS(openat(dir, "inner", O_RDONLY));
    OPENS(openat(dir, "../small", O_RDONLY));
    TELL(fstatat(dir, "deep/leaf", &status, 0));
    TELL(fchdir(dir));
    show_path("here", "inner");
    TELL(openat(dir, "none", O_RDONLY));
}

CASE(openat_dirfds)
{
    int dir = open(in_r("sub"), O_RDONLY), file = reader("small");
    OPENS(openat(dir, "inner", O_RDONLY));
    OPENS(openat(dir, "./deep//leaf", O_RDONLY));
    OPENS(openat(dir, "../many/f0001", O_RDONLY));
    OPENS(openat(dir, "../../read/small", O_RDONLY));
    OPENS(openat(dir, "back", O_RDONLY));
    OPENS(openat(dir, in_r("x"), O_RDONLY));
    OPENS(openat(-1, in_r("x"), O_RDONLY));
    OPENS(openat(file, in_r("x"), O_RDONLY));
    OPENS(openat(file, "x", O_RDONLY));
    OPENS(openat(-1, "x", O_RDONLY));
    OPENS(openat(999, "x", O_RDONLY));
    OPENS(openat(dir, "", O_RDONLY));
    OPENS(openat(AT_FDCWD, "x", O_RDONLY));
}

CASE(dirfd_outside_leads_in)
{
    OK(symlink(in_r(""), "way") == 0);
    int here = open(".", O_RDONLY);
    OPENS(openat(here, "way/small", O_RDONLY));
    OPENS(openat(here, "way/sub/../x", O_RDONLY));
    OPENS(openat(here, "./way/to_dir/inner", O_RDONLY));
    int by = openat(here, "way/sub", O_RDONLY | O_DIRECTORY);
    OPENS(openat(by, "inner", O_RDONLY));
    OPENS(openat(here, "way/none", O_RDONLY));
}

CASE(links_from_outside)
{
    struct stat status;
    char text[PATH_MAX];
    OK(symlink(in_r("small"), "file") == 0 && symlink(in_r("sub"), "dir") == 0);
    OK(symlink("file", "again") == 0 && symlink(in_r("none"), "nothing") == 0);
    show_path("file", "file");
    show_path("again", "again");
    show_path("dir", "dir/inner");
    show_path("dir up", "dir/../x");
    TELL(open("nothing", O_RDONLY));
    TELL(open("file", O_RDONLY | O_NOFOLLOW));
    TELL(stat("again", &status));
    SHOW("size %ld", (long) status.st_size);
    TELL(lstat("again", &status));
    SHOW("link %d", S_ISLNK(status.st_mode));
    TELL(access("dir/deep", X_OK));
    TELL_POINTER(realpath("dir/back", text));
    SHOW("%s", text);
    TELL_POINTER(opendir("dir"));
    TELL(chdir("dir/deep"));
    show_path("leaf", "leaf");
}

CASE(link_outside_is_replaced)
{
    OK(symlink("/dev/null", "way") == 0);
    show_path("first", "way");
    OK(unlink("way") == 0 && symlink(in_r("small"), "way") == 0);
    show_path("second", "way");
    OK(unlink("way") == 0 && symlink(in_r("x"), "way") == 0);
    show_path("third", "way");
}

CASE(link_outside_into_a_new_directory)
{
    OK(symlink(in_d("later"), "way") == 0);
    TELL(open("way/f", O_RDONLY));
    OK(mkdir(in_d("later"), 0755) == 0);
    TELL(open("way/f", O_RDONLY));
    put("way/f", "by the link");
    show_path("way", "way/f");
    show_path("real", in_d("later/f"));
}

CASE(proc_self_fd)
{
    char path[64], text[PATH_MAX] = {0};
    struct stat one, two;
    int fd = reader("small");
    OK(lseek(fd, 6, SEEK_SET) == 6);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    OPENS(open(path, O_RDONLY));
    TELL(readlink(path, text, sizeof(text)));
    SHOW("%s", text);
    TELL(stat(path, &one));
    OK(fstat(fd, &two) == 0);
    SHOW("same %d", one.st_ino == two.st_ino && one.st_dev == two.st_dev);
    TELL(access(path, R_OK));
    TELL_POINTER(realpath(path, text));
    SHOW("%s", text);
    TELL(lstat(path, &one));
    SHOW("link %d", S_ISLNK(one.st_mode));
    show_next("offset is its own", fd);
}

CASE(dev_fd)
{
    char path[64];
    int fd = reader("small");
    OK(lseek(fd, 6, SEEK_SET) == 6);
    snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    OPENS(open(path, O_RDONLY));
    TELL(access(path, R_OK));
    TELL(access(path, X_OK));
    OK(dup2(fd, 0) == 0);
    OPENS(open("/dev/stdin", O_RDONLY));
    OPENS(open("/proc/self/fd/0", O_RDONLY));
}

CASE(proc_pid_fd)
{
    char path[64];
    int fd = reader("small");
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/task/%d/fd/%d", getpid(), fd);
    OPENS(open(path, O_RDONLY));
}

CASE(proc_self_fd_of_a_directory)
{
    char path[100], text[PATH_MAX] = {0};
    int fd = open(in_r("sub"), O_RDONLY);
    snprintf(path, sizeof(path), "/proc/self/fd/%d/inner", fd);
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/fd/%d/../small", fd);
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    TELL_POINTER(opendir(path));
    TELL_POINTER(realpath(path, text));
    SHOW("%s", text);
    TELL(chdir(path));
    show_path("here", "inner");
    snprintf(path, sizeof(path), "/dev/fd/%d/deep/leaf", fd);
    OPENS(open(path, O_RDONLY));
}

CASE(proc_self_cwd)
{
    char text[PATH_MAX] = {0};
    OK(chdir(in_r("sub")) == 0);
    OPENS(open("/proc/self/cwd/inner", O_RDONLY));
    OPENS(open("/proc/self/cwd/../small", O_RDONLY));
    OPENS(open("/proc/self/cwd/none", O_RDONLY));
    TELL(access("/proc/self/cwd/deep/leaf", R_OK));
    TELL_POINTER(opendir("/proc/self/cwd"));
    TELL_POINTER(realpath("/proc/self/cwd/back", text));
    SHOW("%s", text);
    TELL(readlink("/proc/self/cwd", text, sizeof(text)));
    SHOW("%s", text);
}

CASE(proc_self_root)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "/proc/self/root%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/root/%s", in_r("to_dir/inner"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/root%s", in_r("none"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/root%s", in_r("sub"));
    TELL_POINTER(opendir(path));
}

CASE(dots_and_slashes)
{
    const char *names[] = {"./small", "//small", "sub/./inner", "sub//deep///leaf", "sub/../small", "./././x",
                           "sub/deep/../../x", "sub/deep/deeper/../../../sub/inner", "empty_dir/../small",
                           "to_dir/../x", "none/../small", "small/../x", "small/.", "small/", "x//", "sub/.",
                           "sub/..", "up/read/x", "../read/small", "../../../../../../../../../../../etc/none"};
    struct stat status;
    for (int i = 0; i < 20; i++) {
        errno = 0;
        int code = stat(in_r(names[i]), &status);
        SHOW("%s: %d %s %o", names[i], code, strerrorname_np(errno), code == 0 ? status.st_mode : 0);
    }
}

CASE(many_leading_slashes)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "/%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "///////%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/.%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/tmp/..%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/../%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
}

CASE(relative_paths)
{
    OK(chdir(in_r("sub")) == 0);
    OPENS(open("inner", O_RDONLY));
    OPENS(open("./inner", O_RDONLY));
    OPENS(open("../x", O_RDONLY));
    OPENS(open("deep/../back", O_RDONLY));
    OPENS(open("../to_dir/inner", O_RDONLY));
    OPENS(open("../../read/x", O_RDONLY));
    OPENS(open("none", O_RDONLY));
    OPENS(open("", O_RDONLY));
    OPENS(open("inner/", O_RDONLY));
}

CASE(long_names_and_paths)
{
    static char path[8192];
    struct stat status;
    snprintf(path, sizeof(path), "%s/names/", in_r(""));
    memset(path + strlen(path), 'n', 255);
    TELL(stat(path, &status));
    strcat(path, "n");
    TELL(stat(path, &status));
    strcpy(path, in_r(""));
    while (strlen(path) < 4090) {
        strcat(path, "/");
    }
    strcat(path, "x");
    TELL(stat(path, &status));
    while (strlen(path) < 4097) {
        strcat(path, "/");
    }
    TELL(stat(path, &status));
    TELL(open(path, O_RDONLY));
    TELL(access(path, F_OK));
    TELL(chdir(path));
    TELL(readlink(path, path + 5000, 10));
}

CASE(bad_pointers)
{
    struct stat status;
    struct statx wide;
    struct statfs fs;
    TELL(stat((char *) 16, &status));
    TELL(open((char *) 16, O_RDONLY));
    TELL(access((char *) 16, F_OK));
    TELL(readlink((char *) 16, (char *) &status, 10));
    TELL(statfs((char *) 16, &fs));
    TELL(statx(AT_FDCWD, (char *) 16, 0, STATX_SIZE, &wide));
    TELL(statx(AT_FDCWD, in_r("x"), 0, STATX_SIZE, (struct statx *) 16));
    TELL(chdir((char *) 16));
    TELL(syscall(SYS_newfstatat, AT_FDCWD, in_r("x"), (struct stat *) 16, 0));
}

static void show_masks(const char *name, unsigned flags)
{
    const unsigned masks[] = {0, STATX_TYPE, STATX_MODE, STATX_SIZE, STATX_INO, STATX_MTIME, STATX_NLINK,
                              STATX_BASIC_STATS, STATX_BLOCKS};
    for (int i = 0; i < 9; i++) {
        struct statx got;
        memset(&got, 0xab, sizeof(got));
        int code = statx(AT_FDCWD, in_r(name), flags, masks[i], &got);
        SHOW("%s %x: %d has %d type %o size %lld", name, masks[i], code, (got.stx_mask & masks[i]) == masks[i],
             masks[i] & STATX_TYPE ? got.stx_mode & S_IFMT : 0,
             masks[i] & STATX_SIZE && S_ISREG(got.stx_mode) ? (long long) got.stx_size : -1);
    }
}

CASE(statx_masks) { show_masks("small", 0); }
CASE(statx_masks_of_a_link) { show_masks("to_file", AT_SYMLINK_NOFOLLOW); }
CASE(statx_masks_of_a_directory) { show_masks("sub", 0); }

CASE(statx_flags)
{
    struct statx got;
    int dir = open(in_r("sub"), O_RDONLY), file = reader("small");
    TELL(statx(dir, "inner", AT_STATX_FORCE_SYNC, STATX_SIZE, &got));
    TELL(statx(dir, "inner", AT_STATX_DONT_SYNC, STATX_SIZE, &got));
    TELL(statx(dir, "inner", AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC, STATX_SIZE, &got));
    TELL(statx(dir, "inner", AT_NO_AUTOMOUNT, STATX_SIZE, &got));
    TELL(statx(dir, "", AT_EMPTY_PATH, STATX_SIZE, &got));
    TELL(statx(file, "", AT_EMPTY_PATH, STATX_SIZE, &got));
    TELL(statx(file, "", 0, STATX_SIZE, &got));
    TELL(statx(AT_FDCWD, "", AT_EMPTY_PATH, STATX_SIZE, &got));
    TELL(statx(dir, "none", 0, STATX_SIZE, &got));
    TELL(statx(dir, "inner", 0x10000000, STATX_SIZE, &got));
    TELL(statx(dir, "inner", 0, STATX__RESERVED, &got));
    TELL(statx(-1, "inner", 0, STATX_SIZE, &got));
    TELL(statx(file, "inner", 0, STATX_SIZE, &got));
}

CASE(statx_agrees_with_stat)
{
    const char *names[] = {"small", "mid.bin", "sub", "empty", "modes/m4755"};
    for (int i = 0; i < 5; i++) {
        struct statx wide;
        struct stat status;
        OK(stat(in_r(names[i]), &status) == 0);
        OK(statx(AT_FDCWD, in_r(names[i]), 0, STATX_ALL, &wide) == 0);
        SHOW("%s: %d %d %d %d %d %d %d %d", names[i], wide.stx_ino == status.st_ino,
             wide.stx_mode == status.st_mode, wide.stx_nlink == status.st_nlink, wide.stx_size == status.st_size,
             wide.stx_blocks == status.st_blocks, wide.stx_mtime.tv_sec == status.st_mtim.tv_sec,
             wide.stx_mtime.tv_nsec == status.st_mtim.tv_nsec,
             wide.stx_dev_major == major(status.st_dev) && wide.stx_dev_minor == minor(status.st_dev));
    }
}

CASE(statx_by_syscall)
{
    struct statx got;
    int fd = reader("mid.bin");
    TELL(syscall(SYS_statx, AT_FDCWD, in_r("small"), 0, STATX_SIZE, &got));
    SHOW("%lld", (long long) got.stx_size);
    TELL(syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_SIZE, &got));
    SHOW("%lld", (long long) got.stx_size);
    TELL(syscall(SYS_statx, AT_FDCWD, in_r("none"), 0, STATX_SIZE, &got));
}

CASE(stat_by_syscall)
{
    struct stat status;
    TELL(syscall(SYS_stat, in_r("small"), &status));
    SHOW("%ld", (long) status.st_size);
    TELL(syscall(SYS_lstat, in_r("to_file"), &status));
    SHOW("%ld", (long) status.st_size);
    TELL(syscall(SYS_fstat, reader("mid.bin"), &status));
    SHOW("%ld", (long) status.st_size);
    TELL(syscall(SYS_newfstatat, AT_FDCWD, in_r("x"), &status, 0));
    SHOW("%ld", (long) status.st_size);
}

CASE(stat_block_sizes)
{
    const char *names[] = {"small", "empty", "mid.bin", "page.bin"};
    for (int i = 0; i < 4; i++) {
        struct stat status;
        OK(stat(in_r(names[i]), &status) == 0);
        SHOW("%s: %d %d", names[i], status.st_blksize >= 512, status.st_blocks * 512 >= status.st_size);
    }
}

CASE(fstatat_forms)
{
    struct stat status;
    int dir = open(in_r("sub"), O_RDONLY), file = reader("small");
    OK(chdir(in_r("sub")) == 0);
    TELL(fstatat(AT_FDCWD, "", &status, AT_EMPTY_PATH));
    SHOW("directory %d", S_ISDIR(status.st_mode));
    TELL(fstatat(AT_FDCWD, ".", &status, 0));
    TELL(fstatat(dir, "back", &status, AT_SYMLINK_NOFOLLOW));
    SHOW("link %d", S_ISLNK(status.st_mode));
    TELL(fstatat(dir, "back", &status, AT_NO_AUTOMOUNT));
    TELL(fstatat(file, "", &status, AT_EMPTY_PATH));
    TELL(fstatat(file, "", &status, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW));
    TELL(fstatat(file, "x", &status, AT_EMPTY_PATH));
    TELL(fstatat(dir, "inner/", &status, 0));
    TELL(fstatat(dir, "back/", &status, 0));
    TELL(fstatat(dir, "deep/", &status, AT_SYMLINK_NOFOLLOW));
    TELL(fstatat(-1, "", &status, AT_EMPTY_PATH));
}

CASE(faccessat2_flags)
{
    int dir = open(in_r("sub"), O_RDONLY), file = reader("small");
    TELL(syscall(SYS_faccessat2, dir, "inner", R_OK, 0));
    TELL(syscall(SYS_faccessat2, dir, "inner", R_OK, AT_EACCESS));
    TELL(syscall(SYS_faccessat2, dir, "back", F_OK, AT_SYMLINK_NOFOLLOW));
    TELL(syscall(SYS_faccessat2, AT_FDCWD, in_r("dangling"), F_OK, AT_SYMLINK_NOFOLLOW));
    TELL(syscall(SYS_faccessat2, AT_FDCWD, in_r("dangling"), F_OK, 0));
    TELL(syscall(SYS_faccessat2, file, "", R_OK, AT_EMPTY_PATH));
    TELL(syscall(SYS_faccessat2, dir, "", X_OK, AT_EMPTY_PATH));
    TELL(syscall(SYS_faccessat2, dir, "inner", 0777, 0));
    TELL(syscall(SYS_faccessat2, dir, "inner", R_OK, 0x4000000));
    TELL(syscall(SYS_faccessat2, dir, "none", R_OK, 0));
    TELL(syscall(SYS_faccessat2, -1, "none", R_OK, 0));
    TELL(syscall(SYS_faccessat, dir, "inner", R_OK));
    TELL(syscall(SYS_faccessat, dir, "none", R_OK));
}

CASE(faccessat_flags)
{
    int dir = open(in_r("sub"), O_RDONLY), file = reader("small");
    TELL(faccessat(dir, "inner", R_OK, AT_EACCESS));
    TELL(faccessat(dir, "inner", X_OK, AT_EACCESS));
    TELL(faccessat(dir, "back", F_OK, AT_SYMLINK_NOFOLLOW));
    TELL(faccessat(dir, "deep", R_OK | X_OK, 0));
    TELL(faccessat(file, "x", R_OK, 0));
    TELL(faccessat(file, "", R_OK, AT_EMPTY_PATH));
    TELL(faccessat(dir, "inner", R_OK, 0x10));
    TELL(faccessat(dir, "inner/", R_OK, 0));
    TELL(faccessat(dir, "deep/", R_OK, 0));
}

CASE(access_modes)
{
    const char *names[] = {"modes/m0400", "modes/m0755", "modes/m0111", "small", "sub", "programs/echo", "to_file"};
    for (int i = 0; i < 7; i++) {
        SHOW("%s: F %d R %d X %d RX %d", names[i], access(in_r(names[i]), F_OK), access(in_r(names[i]), R_OK),
             access(in_r(names[i]), X_OK), access(in_r(names[i]), R_OK | X_OK));
    }
}

int euidaccess(const char *, int);

CASE(euidaccess_and_eaccess)
{
    TELL(euidaccess(in_r("small"), R_OK));
    TELL(eaccess(in_r("small"), R_OK));
    TELL(euidaccess(in_r("small"), X_OK));
    TELL(eaccess(in_r("programs/echo"), X_OK));
    TELL(euidaccess(in_r("none"), F_OK));
    TELL(eaccess(in_r("small/x"), F_OK));
    TELL(euidaccess(in_r("loop_a"), F_OK));
    TELL(euidaccess(in_r("small"), R_OK | X_OK));
}

CASE(readlink_sizes)
{
    char text[64];
    for (int size = 1; size <= 8; size++) {
        memset(text, '.', sizeof(text));
        ssize_t got = readlink(in_r("to_file"), text, size);
        SHOW("%d: %zd %.8s", size, got, text);
    }
    TELL(readlink(in_r("to_file"), text, 0));
    TELL(readlink(in_r("to_file"), (char *) 16, 5));
    TELL(readlink(in_r("small"), text, 5));
    TELL(readlink(in_r("sub"), text, 5));
    TELL(readlink(in_r("to_dir/"), text, 5));
    TELL(readlink(in_r("to_dir/."), text, 5));
    TELL(readlink(in_r("to_dir/back"), text, 20));
    TELL(readlink(in_r("loop_a"), text, 20));
}

CASE(readlinkat_forms)
{
    char text[64] = {0};
    int dir = open(in_r("sub"), O_RDONLY);
    TELL(readlinkat(dir, "back", text, sizeof(text)));
    SHOW("%s", text);
    TELL(readlinkat(dir, "../to_file", text, sizeof(text)));
    TELL(readlinkat(dir, "inner", text, sizeof(text)));
    TELL(readlinkat(dir, "", text, sizeof(text)));
    TELL(readlinkat(-1, "back", text, sizeof(text)));
    TELL(syscall(SYS_readlink, in_r("to_dir"), text, sizeof(text)));
    TELL(syscall(SYS_readlinkat, dir, "back", text, sizeof(text)));
}

static void show_real(const char *name)
{
    char text[PATH_MAX] = "";
    errno = 0;
    bool found = realpath(in_r(name), text) != NULL;
    SHOW("%s: %s", name, found ? text : strerrorname_np(errno));
}

CASE(realpath_forms)
{
    const char *names[] = {"small", "to_file", "to_dir/back", "sub/../x", "up", "dangling", "loop_a", "small/",
                           "small/x", "none", "sub/none/..", "chain6", "chain0", "to_dir/", "to_file_slash", "out",
                           "./sub//deep/./leaf"};
    for (int i = 0; i < 17; i++) {
        show_real(names[i]);
    }
}

CASE(realpath_relative_and_allocated)
{
    OK(chdir(in_r("sub")) == 0);
    SHOW("%s", realpath(".", NULL));
    SHOW("%s", realpath("..", NULL));
    SHOW("%s", realpath("back", NULL));
    TELL_POINTER(realpath("none", NULL));
    TELL_POINTER(realpath(NULL, NULL));
    TELL_POINTER(realpath("", NULL));
}

CASE(canonicalize_file_names)
{
    SHOW("%s", canonicalize_file_name(in_r("to_dir/deep/..")));
    SHOW("%s", canonicalize_file_name(in_r("to_file")));
    TELL_POINTER(canonicalize_file_name(in_r("none")));
    TELL_POINTER(canonicalize_file_name(in_r("loop_b")));
    TELL_POINTER(canonicalize_file_name(""));
}

CASE(realpath_of_outputs)
{
    char text[PATH_MAX];
    OK(mkdir(in_d("d"), 0755) == 0 && symlink("d", in_d("l")) == 0);
    put(in_d("d/f"), "x");
    SHOW("%s", realpath(in_d("l/f"), text));
    SHOW("%s", realpath(in_d("l/../given"), text));
    OK(chdir(in_d("l")) == 0);
    SHOW("%s", realpath("f", text));
    SHOW("%s", getcwd(text, sizeof(text)));
}

CASE(chdir_and_getcwd)
{
    char text[PATH_MAX];
    const char *names[] = {"sub", "to_dir", "sub/deep/..", "empty_dir", "up", ".", "to_dir/deep"};
    for (int i = 0; i < 7; i++) {
        TELL(chdir(in_r(names[i])));
        SHOW("%s: %s", names[i], getcwd(text, sizeof(text)));
    }
    TELL(chdir(in_r("small")));
    TELL(chdir(in_r("none")));
    TELL(chdir(in_r("loop_a")));
    TELL(chdir(in_r("dangling")));
    TELL(chdir(""));
    SHOW("stayed: %s", getcwd(text, sizeof(text)));
}

CASE(chdir_relative)
{
    char text[PATH_MAX];
    OK(chdir(in_r("sub/deep/deeper")) == 0);
    TELL(chdir(".."));
    SHOW("%s", getcwd(text, sizeof(text)));
    TELL(chdir("../../to_dir"));
    SHOW("%s", getcwd(text, sizeof(text)));
    TELL(chdir("../.."));
    SHOW("%s", getcwd(text, sizeof(text)));
    TELL(chdir("/"));
    SHOW("%s", getcwd(text, sizeof(text)));
    TELL(chdir(in_r("")));
    TELL(chdir("none"));
    TELL(access("small", R_OK));
}

CASE(fchdir_forms)
{
    char text[PATH_MAX];
    int dir = open(in_r("sub/deep"), O_RDONLY), path = open(in_r("sub"), O_PATH);
    TELL(fchdir(dir));
    SHOW("%s", getcwd(text, sizeof(text)));
    TELL(fchdir(path));
    SHOW("%s", getcwd(text, sizeof(text)));
    show_path("inner", "inner");
    TELL(fchdir(reader("small")));
    TELL(fchdir(-1));
    TELL(fchdir(open(in_w(""), O_RDONLY)));
    TELL(access("inner", F_OK));
    TELL(close(dir));
    TELL(fchdir(dir));
}

CASE(getcwd_sizes)
{
    char text[PATH_MAX];
    OK(chdir(in_r("sub")) == 0);
    size_t length = strlen(getcwd(text, sizeof(text)));
    TELL_POINTER(getcwd(text, length));
    TELL_POINTER(getcwd(text, length + 1));
    TELL_POINTER(getcwd(text, 0));
    TELL_POINTER(getcwd(NULL, 3));
    TELL_POINTER(getcwd(NULL, length + 1));
    SHOW("syscall %ld", syscall(SYS_getcwd, text, sizeof(text)));
    char *old = getwd(text);
    SHOW("getwd %s", old);
    setenv("PWD", in_r("to_dir"), 1);
    char *name = get_current_dir_name();
    SHOW("get_current_dir_name %s", name);
}

CASE(getcwd_in_a_child)
{
    char text[PATH_MAX];
    OK(chdir(in_r("sub")) == 0);
    IN_CHILD("child", SHOW("%s", getcwd(text, sizeof(text))); OK(chdir("deep") == 0);
             SHOW("%s", getcwd(text, sizeof(text))));
    SHOW("%s", getcwd(text, sizeof(text)));
    fflush(NULL);
    TELL(system("pwd; cat inner"));
}

CASE(cwd_is_removed)
{
    char text[PATH_MAX];
    OK(mkdir(in_d("gone"), 0755) == 0 && chdir(in_d("gone")) == 0);
    OK(rmdir(in_d("gone")) == 0);
    TELL_POINTER(getcwd(text, sizeof(text)));
    TELL(open("f", O_RDWR | O_CREAT, 0644));
    TELL(open("f", O_RDONLY));
    TELL(chdir(".."));
}

CASE(statfs_of_inputs_is_remote)
{
    struct statfs one, two;
    TELL(statfs(in_r("small"), &one));
    TELL(fstatfs(reader("small"), &two));
    SHOW("same %d", one.f_type == two.f_type && one.f_bsize == two.f_bsize);
    SHOW("sizes %d %d %d", one.f_bsize > 0, one.f_namelen == 255, one.f_blocks > 0);
    TELL(statfs(in_r("sub"), &two));
    SHOW("same %d", memcmp(&one.f_fsid, &two.f_fsid, sizeof(one.f_fsid)) == 0);
    TELL(statfs(in_r("to_file"), &two));
    TELL(statfs(in_r("none"), &two));
    TELL(statfs(in_r("small/x"), &two));
    TELL(statfs(in_r("loop_a"), &two));
    TELL(fstatfs(-1, &two));
    TELL(fstatfs(open(in_r("sub"), O_RDONLY), &two));
    TELL(fstatfs(open(in_r("small"), O_PATH), &two));
}

CASE(statvfs_fields)
{
    struct statvfs one, two;
    TELL(statvfs(in_r("small"), &one));
    TELL(fstatvfs(reader("small"), &two));
    SHOW("same %d", one.f_fsid == two.f_fsid && one.f_bsize == two.f_bsize);
    SHOW("%d %d %lu", one.f_frsize > 0, one.f_blocks >= one.f_bfree && one.f_bfree >= one.f_bavail, one.f_namemax);
    TELL(statvfs(in_r("none"), &one));
    TELL(fstatvfs(-1, &one));
}

CASE(pathconf_names)
{
    const int names[] = {_PC_LINK_MAX, _PC_NAME_MAX, _PC_PATH_MAX, _PC_PIPE_BUF, _PC_NO_TRUNC,
                         _PC_CHOWN_RESTRICTED, _PC_FILESIZEBITS, _PC_SYMLINK_MAX, _PC_ALLOC_SIZE_MIN,
                         _PC_2_SYMLINKS, _PC_SYNC_IO, _PC_ASYNC_IO};
    int file = reader("small"), dir = open(in_r("sub"), O_RDONLY);
    for (int i = 1; i < 7; i++) {
        errno = 0;
        SHOW("%d: %ld %ld %ld %s", i, pathconf(in_r("small"), names[i]), fpathconf(file, names[i]),
             fpathconf(dir, names[i]), strerrorname_np(errno));
    }
    TELL(pathconf(in_r("small"), 9999));
    TELL(fpathconf(file, 9999));
    TELL(pathconf(in_r("none"), _PC_LINK_MAX));
    TELL(fpathconf(-1, _PC_NAME_MAX));
    TELL(pathconf(in_r("small"), _PC_NAME_MAX));
}

CASE(xattr_reading)
{
    char text[64];
    int fd = reader("small"), dir = open(in_r("sub"), O_RDONLY);
    TELL(getxattr(in_r("small"), "user.none", text, 64));
    TELL(lgetxattr(in_r("to_file"), "user.none", text, 64));
    TELL(fgetxattr(fd, "user.none", text, 64));
    TELL(fgetxattr(dir, "user.none", text, 64));
    TELL(listxattr(in_r("small"), text, 64));
    TELL(llistxattr(in_r("to_file"), text, 64));
    TELL(flistxattr(fd, text, 64));
    TELL(listxattr(in_r("small"), NULL, 0));
    TELL(getxattr(in_r("none"), "user.none", text, 64));
    TELL(listxattr(in_r("none"), text, 64));
    TELL(getxattr(in_r("small"), "", text, 64));
    TELL(getxattr(in_r("small"), "nonsense", text, 64));
    TELL(fgetxattr(-1, "user.none", text, 64));
    TELL(getxattr(in_r("small"), "system.posix_acl_access", text, 64));
}

CASE(inotify_add_watch_of_missing_names)
{
    int fd = inotify_init1(IN_NONBLOCK);
    TELL(inotify_add_watch(fd, in_r("none"), IN_ALL_EVENTS));
    TELL(inotify_add_watch(fd, in_r("small/x"), IN_ALL_EVENTS));
    TELL(inotify_rm_watch(fd, 99));
}

/* Outputs are not watched: EOPNOTSUPP there. */
CASE(inotify_watch_of_an_input_sees_no_change)
{
    char events[4096];
    int fd = inotify_init1(IN_NONBLOCK);
    int file = inotify_add_watch(fd, in_r("small"), IN_MODIFY | IN_DELETE_SELF);
    SHOW("watched %d", file > 0 || (errno == EOPNOTSUPP && strcmp(getenv("KIND"), "output") == 0));
    show_path("read", in_r("small"));
    TELL(read(fd, events, sizeof(events)));
}

CASE(name_to_handle)
{
    char room[sizeof(struct file_handle) + 128];
    struct file_handle *handle = (struct file_handle *) room;
    int mount;
    handle->handle_bytes = 128;
    long got = name_to_handle_at(AT_FDCWD, in_r("small"), handle, &mount, 0);
    SHOW("%d", got == 0 || errno == EOPNOTSUPP);
    TELL(name_to_handle_at(AT_FDCWD, in_r("none"), handle, &mount, 0));
}

static void show_made(const char *label, int fd, char *path)
{
    int code = errno;
    struct stat status;
    if (fd < 0) {
        SHOW("%s: %s %s", label, strerrorname_np(code), strrchr(path, '/') + 1);
        return;
    }
    OK(fstat(fd, &status) == 0);
    const char *name = strrchr(path, '/') + 1;
    SHOW("%s: mode %o flags %x cloexec %d length %zu start %.2s end %s", label, status.st_mode,
         fcntl(fd, F_GETFL) & ~0100000, fcntl(fd, F_GETFD), strlen(name), name, name + 8);
    OK(write(fd, "temp", 4) == 4 && lseek(fd, 0, SEEK_SET) == 0);
    show_next(label, fd);
    TELL(close(fd));
    TELL(unlink(path));
}

CASE(mkstemp_names)
{
    char path[PATH_MAX];
    show_made("mkstemp", mkstemp(strcpy(path, in_d("t-XXXXXX"))), path);
    show_made("mkstemp64", mkstemp64(strcpy(path, in_d("t-XXXXXX"))), path);
    show_made("mkostemp", mkostemp(strcpy(path, in_d("t-XXXXXX")), O_CLOEXEC | O_APPEND), path);
    show_made("mkostemp64", mkostemp64(strcpy(path, in_d("t-XXXXXX")), O_SYNC), path);
    show_made("mkstemps", mkstemps(strcpy(path, in_d("t-XXXXXX.suffix")), 7), path);
    show_made("mkstemps64", mkstemps64(strcpy(path, in_d("t-XXXXXX.suffix")), 7), path);
    show_made("mkostemps", mkostemps(strcpy(path, in_d("t-XXXXXX.s")), 2, O_CLOEXEC), path);
    show_made("mkostemps64", mkostemps64(strcpy(path, in_d("t-XXXXXX.s")), 2, 0), path);
}

CASE(mkstemp_refusals)
{
    char path[PATH_MAX];
    show_made("short", mkstemp(strcpy(path, in_d("t-XXXXX"))), path);
    show_made("none", mkstemp(strcpy(path, in_d("t"))), path);
    show_made("suffix", mkstemps(strcpy(path, in_d("t-XXXXXX.s")), 3), path);
    show_made("negative", mkstemps(strcpy(path, in_d("t-XXXXXX.s")), -1), path);
    errno = 0;
    TELL(mkstemp(strcpy(path, in_d("none/t-XXXXXX"))));
    TELL(mkstemp(strcpy(path, in_d("given/t-XXXXXX"))));
}

CASE(mkdtemp_names)
{
    char path[PATH_MAX];
    struct stat status;
    TELL_POINTER(mkdtemp(strcpy(path, in_d("t-XXXXXX"))));
    OK(stat(path, &status) == 0);
    SHOW("mode %o", status.st_mode);
    TELL(rmdir(path));
    TELL_POINTER(mkdtemp(strcpy(path, in_d("t-XXX"))));
    TELL_POINTER(mkdtemp(strcpy(path, in_d("none/t-XXXXXX"))));
    mktemp(strcpy(path, in_d("t-XXXXXX")));
    TELL(access(path, F_OK));
    SHOW("length %zu", strlen(strrchr(path, '/') + 1));
}

CASE(mkstemp_relative)
{
    char path[] = "t-XXXXXX";
    OK(chdir(in_d("")) == 0);
    int fd = mkstemp(path);
    SHOW("made %d", fd >= 0);
    TELL(access(path, R_OK | W_OK));
    TELL(access(in_d(path), R_OK));
    TELL(unlink(path));
}

CASE(creating_under_a_relative_directory)
{
    int dir = open(in_d(""), O_RDONLY | O_DIRECTORY);
    TELL(mkdirat(dir, "new", 0750));
    int made = openat(dir, "new", O_RDONLY | O_DIRECTORY);
    int fd = openat(made, "file", O_RDWR | O_CREAT | O_EXCL, 0640);
    TELL(write(fd, "text", 4));
    TELL(close(fd));
    OPENS(openat(dir, "new/file", O_RDONLY));
    OPENS(openat(made, "../new/file", O_RDONLY));
    TELL(symlinkat("file", made, "link"));
    OPENS(openat(made, "link", O_RDONLY));
    TELL(renameat(made, "file", dir, "moved"));
    OPENS(openat(made, "link", O_RDONLY));
    OPENS(openat(made, "../moved", O_RDONLY));
    TELL(unlinkat(made, "link", 0));
    TELL(unlinkat(dir, "new", AT_REMOVEDIR));
    TELL(openat(made, "x", O_RDWR | O_CREAT, 0644));
}

CASE(output_through_proc_self_cwd_and_fd)
{
    char path[64];
    OK(chdir(in_d("")) == 0);
    put("/proc/self/cwd/one", "one");
    show_path("one", in_d("one"));
    int dir = open(in_d(""), O_RDONLY);
    snprintf(path, sizeof(path), "/proc/self/fd/%d/two", dir);
    put(path, "two");
    show_path("two", in_d("two"));
    int fd = open(in_d("three"), O_RDWR | O_CREAT, 0644);
    snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    int again = open(path, O_WRONLY | O_APPEND);
    TELL(write(again, "three", 5));
    TELL(close(again));
    TELL(close(fd));
    show_path("three", in_d("three"));
}

CASE(acct_and_others_outside)
{
    struct stat status;
    TELL(stat("/etc/passwd", &status));
    TELL(access("/proc/self/status", R_OK));
    TELL(open("/no/such/file", O_RDONLY));
    TELL(readlink("/etc/passwd", (char *) &status, 10));
}
