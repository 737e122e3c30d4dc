/* Opening and making by a path: openat2, flags, O_PATH, directory descriptors, mkstemp. */
#include "calls_paths.h"

#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

/* Tries again after EAGAIN, as openat2(2) advises: under RESOLVE_BENEATH and RESOLVE_IN_ROOT the kernel
 * gives it for ".." if any file of the machine is renamed meanwhile. */
static long rules(int dir, const char *path, unsigned long flags, unsigned long resolve)
{
    struct open_how how = {.flags = flags, .resolve = resolve};
    long fd = -1;
    for (int i = 0; i < 100; i++) {
        fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
        if (fd >= 0 || errno != EAGAIN || (resolve & 0x20) != 0) /* RESOLVE_CACHED means it */
            break;
    }
    return fd;
}

/* Every path by every rule, from two directories. */
CASE(openat2_rules)
{
    const unsigned long all[] = {RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_NO_SYMLINKS,
                                 RESOLVE_NO_MAGICLINKS, RESOLVE_NO_XDEV,
                                 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS, RESOLVE_IN_ROOT | RESOLVE_NO_XDEV};
    const char *const paths[] = {
        "small", "inner", "sub/inner", "/small", "/sub/inner", "sub/../small", "../small", "..", "sub/..",
        "sub/../../small", "/../../small", "deep/../inner", "deep/../../small", ".", "./small", "sub/.",
        "sub/", "small/", "small/.", "small/x", "small/..", "none", "none/x", "none/..", "sub//inner", "",
        "to_file", "to_dir", "to_dir/", "to_dir/inner", "to_dir/../small", "to_none", "loop_a", "loop_a/x",
        "to_dir/back", "sub/deep/leaf", "up", "up/small", "dangling", "out", "to_dir_slash", "to_file_slash", "chain4", "chain5"};
    int dirs[] = {open(in_r(""), O_PATH | O_DIRECTORY), open(in_r("sub"), O_RDONLY | O_DIRECTORY)};
    for (int d = 0; d < 2; d++) {
        for (int i = 0; i < 7; i++) {
            for (size_t at = 0; at < sizeof(paths) / sizeof(paths[0]); at++) {
                char label[80];
                snprintf(label, sizeof(label), "%d %lx %s", d, all[i], paths[at]);
                errno = 0;
                show_open(label, (int)rules(dirs[d], paths[at], O_RDONLY, all[i]));
            }
        }
    }
}

CASE(openat2_of_links)
{
    int dir = open(in_r(""), O_RDONLY | O_DIRECTORY);
    OPENS(rules(dir, "to_file", O_RDONLY | O_NOFOLLOW, RESOLVE_BENEATH));
    SHOW("%d", rules(dir, "to_file", O_PATH | O_NOFOLLOW, RESOLVE_NO_SYMLINKS) >= 0);
    SHOW("%d", rules(dir, "to_file/", O_PATH | O_NOFOLLOW, RESOLVE_NO_SYMLINKS) >= 0);
    OPENS(rules(dir, "to_dir", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, RESOLVE_BENEATH));
    OPENS(rules(dir, "small", O_RDONLY | O_DIRECTORY, RESOLVE_BENEATH));
    OPENS(rules(AT_FDCWD, in_r("to_dir/inner"), O_RDONLY, RESOLVE_NO_MAGICLINKS));
    OPENS(rules(AT_FDCWD, in_r("to_dir/inner"), O_RDONLY, RESOLVE_BENEATH));
    OK(chdir(in_r("sub")) == 0);
    OPENS(rules(AT_FDCWD, "inner", O_RDONLY, RESOLVE_BENEATH));
    OPENS(rules(AT_FDCWD, "../small", O_RDONLY, RESOLVE_BENEATH));
    OPENS(rules(AT_FDCWD, "/inner", O_RDONLY, RESOLVE_IN_ROOT));
    OPENS(rules(AT_FDCWD, "../small", O_RDONLY, RESOLVE_NO_SYMLINKS));
}

CASE(openat2_no_magiclinks)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", reader("small"));
    OPENS(rules(AT_FDCWD, path, O_RDONLY, RESOLVE_NO_MAGICLINKS));
    OPENS(rules(AT_FDCWD, path, O_RDONLY, RESOLVE_NO_SYMLINKS));
    OPENS(rules(AT_FDCWD, path, O_RDONLY, 0));
}

/* RESOLVE_CACHED may always say EAGAIN, and has to where the file is to be made. */
CASE(openat2_cached)
{
    int dir = open(in_r(""), O_RDONLY | O_DIRECTORY);
    SHOW("%d", rules(dir, "small", O_RDONLY, 0x20) >= 0 || errno == EAGAIN);
    TELL(rules(dir, "small", O_RDONLY | O_CREAT, 0x20));
}

CASE(openat2_refusals)
{
    struct open_how how = {.flags = O_RDONLY};
    char large[5000] = {0};
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("small"), &how, sizeof(how) - 1));
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("small"), &how, 0));
    OPENS(syscall(SYS_openat2, AT_FDCWD, in_r("small"), large, 100));
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("small"), large, sizeof(large)));
    large[90] = 1;
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("small"), large, 100));
    TELL(rules(AT_FDCWD, in_r("small"), O_RDONLY, 1 << 20));
    TELL(rules(AT_FDCWD, in_r("small"), O_RDONLY, RESOLVE_BENEATH | RESOLVE_IN_ROOT));
    TELL(rules(AT_FDCWD, in_r("small"), 1UL << 40, 0));
    TELL(rules(AT_FDCWD, in_r("small"), O_PATH | O_RDWR, 0));
    TELL(rules(AT_FDCWD, in_r("small"), __O_TMPFILE, 0));
    how.mode = 0644;
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("small"), &how, sizeof(how)));
    how = (struct open_how){.flags = O_RDONLY | O_CREAT, .mode = 0200000};
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("small"), &how, sizeof(how)));
    TELL(syscall(SYS_openat2, AT_FDCWD, in_r("none"), (void *) 16, sizeof(how)));
    TELL(syscall(SYS_openat2, AT_FDCWD, NULL, &how, sizeof(how)));
    TELL(rules(-1, "small", O_RDONLY, 0));
    TELL(rules(-1, "small", O_RDONLY, RESOLVE_BENEATH));
    TELL(rules(reader("small"), "small", O_RDONLY, 0));
    TELL(rules(reader("small"), "small", O_RDONLY, RESOLVE_BENEATH));
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
