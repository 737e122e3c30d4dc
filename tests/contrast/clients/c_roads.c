/* Changing an input by a road from outside: links, open directories, descriptors of originals. */
#include "client.h"

#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

static const char *outside(const char *name)
{
    return join("O", name);
}

/* A directory opened without O_DIRECTORY: the one above the tree. */
static int parent(char name[PATH_MAX])
{
    const char *tree = getenv("T");
    char *slash;
    strcpy(name, tree);
    slash = strrchr(name, '/');
    *slash = '\0';
    int fd = open(name, O_RDONLY);
    snprintf(name, PATH_MAX, "%s/text/hello.txt", strrchr(tree, '/') + 1);
    return fd;
}

CASE(open_by_link)
{
    const int flags[] = {O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_WRONLY | O_APPEND};
    for (unsigned i = 0; i < 4; i++) {
        FAILS(EROFS, open(outside("file"), flags[i]));
        FAILS(EROFS, open(outside("dir/x"), flags[i]));
        FAILS(EROFS, open(outside("relative/x"), flags[i]));
    }
    FAILS(EROFS, fopen(outside("file"), "r+"));
    FAILS(EROFS, freopen(outside("file"), "r+", fopen("/dev/null", "r")));
    OK(open(outside("file"), O_RDONLY) >= 0);
    OK(open(outside("file"), O_PATH | O_RDWR) >= 0);
    OK(open("/dev/null", O_RDWR) >= 0);
}

CASE(open_by_directory)
{
    char name[PATH_MAX];
    struct open_how how = {.flags = O_RDWR};
    int fd = parent(name);
    OK(fd >= 0);
    OK(openat(fd, name, O_RDONLY) >= 0);
    OK((errno = 0, openat(fd, name, O_WRONLY)) < 0 && errno == EROFS);
    OK((errno = 0, openat(fd, name, O_RDONLY | O_TRUNC)) < 0 && errno == EROFS);
    OK((errno = 0, syscall(SYS_openat2, fd, name, &how, sizeof(how))) < 0 && errno == EROFS);
    OK((errno = 0, faccessat(fd, name, W_OK, 0)) < 0 && errno == EROFS);
    SHOW("done");
}

/* Exported by every glibc, declared by old ones alone. */
int __xmknod(int version, const char *path, mode_t mode, dev_t *device);
int __xmknodat(int version, int dirfd, const char *path, mode_t mode, dev_t *device);

CASE(older_names)
{
    dev_t none = 0;
    FAILS(EROFS, lchmod(in_tree("text/x"), 0600));
    FAILS(EROFS, lchmod(outside("dir/x"), 0600));
    FAILS(ENOENT, lchmod(in_tree("text/none"), 0600));
    FAILS(EEXIST, __xmknod(0, in_tree("text/x"), S_IFREG | 0600, &none));
    FAILS(EEXIST, __xmknodat(0, AT_FDCWD, outside("dir/x"), S_IFIFO | 0600, &none));
    FAILS(EINVAL, __xmknod(1, in_tree("text/new"), S_IFREG | 0600, &none));
    OK(__xmknod(0, join("W", "fifo"), S_IFIFO | 0600, &none) == 0);
    OK(lchmod(join("W", "fifo"), 0644) == 0);
}

CASE(change_by_descriptor)
{
    const struct timespec times[2] = {{1, 0}, {2, 0}};
    int fd = open(outside("file"), O_RDONLY), path = open(outside("file"), O_PATH);
    FAILS(EROFS, fchmod(fd, 0600));
    FAILS(EROFS, fchown(fd, 1, 1));
    FAILS(EROFS, fchownat(fd, "", 1, 1, AT_EMPTY_PATH));
    FAILS(EROFS, fchownat(path, "", 1, 1, AT_EMPTY_PATH));
    FAILS(EROFS, futimens(fd, times));
    FAILS(EINVAL, utimensat(fd, NULL, times, 0));
    FAILS(EROFS, fsetxattr(fd, "user.a", "b", 1, 0));
    FAILS(EROFS, fremovexattr(fd, "user.a"));
    FAILS(EBADF, fchmod(path, 0600));
    FAILS(EBADF, fchown(path, 1, 1));
    FAILS(EBADF, fchmod(-1, 0600));
    int own = open(join("W", "own"), O_RDWR | O_CREAT, 0644);
    OK(fchmod(own, 0600) == 0 && futimens(own, times) == 0);
    OK(fchownat(own, "", getuid(), getgid(), AT_EMPTY_PATH) == 0);
}

CASE(open_errno)
{
    static char longest[2 * PATH_MAX];
    FAILS(EISDIR, open(in_tree("text/x/"), O_RDWR | O_CREAT, 0600));
    FAILS(EISDIR, open(in_tree("text/new/"), O_RDWR | O_CREAT, 0600));
    FAILS(EISDIR, open(in_tree("text/"), O_RDONLY | O_CREAT, 0600));
    FAILS(ENOTDIR, open(in_tree("text/x/"), O_RDWR));
    FAILS(ENOTDIR, open(in_tree("text/x/y"), O_RDWR | O_CREAT, 0600));
    FAILS(ENOENT, open(in_tree("text/none/y/"), O_RDWR | O_CREAT, 0600));
    FAILS(EISDIR, open(in_tree("text"), O_RDONLY | O_TRUNC));
    FAILS(ENOENT, open(in_tree("text/new"), O_PATH | O_CREAT, 0600));
    if (open("/", O_RDONLY | O_DIRECTORY | O_CREAT, 0600) < 0 && errno == EINVAL) { /* Linux 6.4 */
        FAILS(EINVAL, open(in_tree("text"), O_RDONLY | O_DIRECTORY | O_CREAT, 0600));
        FAILS(EINVAL, open(in_tree("text/x"), O_RDONLY | O_DIRECTORY | O_CREAT, 0600));
        FAILS(EINVAL, open(in_tree("none/new"), O_RDONLY | O_DIRECTORY | O_CREAT, 0600));
    }
    strcpy(longest, in_tree("text"));
    while (strlen(longest) < PATH_MAX)
        strcat(longest, "/.");
    strcat(longest, "/x");
    FAILS(ENAMETOOLONG, open(longest, O_RDONLY));
    FAILS(ENAMETOOLONG, access(longest, F_OK));
}

CASE(attributes_by_link)
{
    char value[100];
    FAILS(ENODATA, getxattr(outside("file"), "user.a", value, sizeof(value)));
    FAILS(ENODATA, getxattr(outside("dir/x"), "user.a", value, sizeof(value)));
    FAILS(ENODATA, lgetxattr(outside("dir/x"), "user.a", value, sizeof(value)));
    FAILS(ENOENT, getxattr(outside("missing"), "user.a", value, sizeof(value)));
    OK(listxattr(outside("file"), value, sizeof(value)) == 0);
    OK(llistxattr(outside("dir/x"), value, sizeof(value)) == 0);
}

CASE(access_by_link)
{
    FAILS(EROFS, access(outside("file"), W_OK));
    FAILS(EROFS, faccessat(AT_FDCWD, outside("relative/x"), R_OK | W_OK, 0));
    FAILS(EROFS, euidaccess(outside("tree/text/x"), W_OK));
    FAILS(ENOENT, access(outside("missing"), W_OK));
    OK(access(outside("file"), R_OK) == 0);
}
