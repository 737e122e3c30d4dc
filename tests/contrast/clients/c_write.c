/* Changing an input from C: calls that Python has no word for. */
#include "client.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <utime.h>

static void show_untouched(void)
{
    char buffer[32] = {0};
    struct stat status;
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    OK(read(fd, buffer, 31) == 12 && strcmp(buffer, "hello world\n") == 0);
    OK(fstat(fd, &status) == 0);
    show_stat("untouched", &status);
    close(fd);
}

CASE(creat_names)
{
    FAILS(EROFS, creat(in_tree("text/hello.txt"), 0644));
    FAILS(EROFS, creat64(in_tree("text/x"), 0644));
    FAILS(EISDIR, creat(in_tree("text"), 0644));
    FAILS(ENOENT, creat(in_tree("none/new"), 0644));
    FAILS(EROFS, open64(in_tree("text/x"), O_RDWR));
    FAILS(EROFS, openat64(AT_FDCWD, in_tree("text/x"), O_RDWR | O_CREAT, 0600));
    show_untouched();
}

CASE(fopen_writing)
{
    const char *modes[] = {"w", "a", "r+", "w+", "a+", "wb", "r+b", NULL};
    for (int i = 0; modes[i] != NULL; i++) {
        FAILS(EROFS, fopen(in_tree("text/hello.txt"), modes[i]));
        FAILS(EROFS, fopen64(in_tree("text/hello.txt"), modes[i]));
    }
    FAILS(EROFS, freopen(in_tree("text/x"), "w", fopen("/dev/null", "r")));
    FAILS(ENOENT, fopen(in_tree("none/new"), "w"));
    FAILS(EISDIR, fopen(in_tree("text"), "w"));
    show_untouched();
}

CASE(truncate_names)
{
    FAILS(EROFS, truncate(in_tree("text/hello.txt"), 3));
    FAILS(EROFS, truncate64(in_tree("text/hello.txt"), 3));
    FAILS(EINVAL, ftruncate(open(in_tree("text/hello.txt"), O_RDONLY), 3));
    FAILS(EINVAL, ftruncate64(open(in_tree("text/hello.txt"), O_RDONLY), 3));
    FAILS(EBADF, fallocate(open(in_tree("text/hello.txt"), O_RDONLY), 0, 0, 10));
    FAILS(EBADF, fallocate64(open(in_tree("text/hello.txt"), O_RDONLY), 0, 0, 10));
    show_untouched();
}

CASE(time_names)
{
    struct utimbuf old = {1, 2};
    struct timeval pair[2] = {{1, 0}, {2, 0}};
    struct timespec fine[2] = {{1, 0}, {2, 0}};
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    FAILS(EROFS, utime(in_tree("text/hello.txt"), &old));
    FAILS(EROFS, utimes(in_tree("text/hello.txt"), pair));
    FAILS(EROFS, lutimes(in_tree("links/dangling"), pair));
    FAILS(EROFS, futimes(fd, pair));
    FAILS(EROFS, futimens(fd, fine));
    FAILS(EROFS, futimesat(AT_FDCWD, in_tree("text/hello.txt"), pair));
    FAILS(EROFS, utimensat(AT_FDCWD, in_tree("text/hello.txt"), fine, 0));
    FAILS(EROFS, utimensat(AT_FDCWD, in_tree("links/dangling"), fine, AT_SYMLINK_NOFOLLOW));
    FAILS(ENOENT, utimensat(AT_FDCWD, in_tree("none"), NULL, 0));
    show_untouched();
}

CASE(mode_and_owner_names)
{
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    int dir = open(in_tree("text"), O_RDONLY);
    FAILS(EROFS, chmod(in_tree("text/hello.txt"), 0));
    FAILS(EROFS, fchmod(fd, 0));
    FAILS(EROFS, fchmodat(dir, "hello.txt", 0, 0));
    FAILS(EROFS, chown(in_tree("text/hello.txt"), 1, 1));
    FAILS(EROFS, lchown(in_tree("links/to_file"), 1, 1));
    FAILS(EROFS, fchown(fd, 1, 1));
    FAILS(EROFS, fchownat(dir, "hello.txt", 1, 1, AT_SYMLINK_NOFOLLOW));
    FAILS(EROFS, fchownat(fd, "", 1, 1, AT_EMPTY_PATH));
    FAILS(EROFS, fchmod(dir, 0));
    show_untouched();
}

CASE(name_changing_names)
{
    int dir = open(in_tree("text"), O_RDONLY);
    FAILS(EROFS, rename(in_tree("text/x"), in_tree("text/new")));
    FAILS(EROFS, renameat(dir, "x", dir, "new"));
    FAILS(EROFS, renameat2(dir, "x", dir, "new", 0));
    FAILS(EINVAL, renameat2(dir, "x", dir, "new", 0xffff));
    FAILS(EXDEV, renameat(dir, "x", AT_FDCWD, join("W", "x")));
    FAILS(EEXIST, linkat(dir, "x", dir, "hello.txt", 0));
    FAILS(EXDEV, link(in_tree("text/x"), join("W", "x")));
    FAILS(EEXIST, symlinkat("to", dir, "x"));
    FAILS(EROFS, unlinkat(dir, "x", 0));
    FAILS(EROFS, unlinkat(dir, "sub", AT_REMOVEDIR));
    FAILS(EINVAL, unlinkat(dir, "x", 0x8000));
    FAILS(EROFS, remove(in_tree("text/x")));
    FAILS(EROFS, remove(in_tree("empty_dir")));
    FAILS(EEXIST, mkdirat(dir, "sub", 0755));
    FAILS(EEXIST, mkfifoat(dir, "x", 0600));
    FAILS(EEXIST, mknodat(dir, "x", S_IFREG | 0600, 0));
    FAILS(EEXIST, mknod(in_tree("text/x"), S_IFREG | 0600, 0));
}

CASE(attribute_names)
{
    int fd = open(in_tree("text/x"), O_RDONLY);
    FAILS(EROFS, setxattr(in_tree("text/x"), "user.a", "1", 1, 0));
    FAILS(EROFS, lsetxattr(in_tree("links/to_file"), "trusted.a", "1", 1, 0));
    FAILS(EROFS, fsetxattr(fd, "user.a", "1", 1, 0));
    FAILS(EROFS, removexattr(in_tree("text/x"), "user.a"));
    FAILS(EROFS, lremovexattr(in_tree("links/to_file"), "trusted.a"));
    FAILS(EROFS, fremovexattr(fd, "user.a"));
}

CASE(descriptor_writes)
{
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    FAILS(EBADF, write(fd, "x", 1));
    FAILS(EBADF, pwrite(fd, "x", 1, 0));
    FAILS(EBADF, pwrite64(fd, "x", 1, 0));
    FAILS(EBADF, dprintf(fd, "x") < 0 ? -1 : 1);
    show_untouched();
}

