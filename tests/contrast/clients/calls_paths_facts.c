/* What is told of a path: stat, statx, access, statfs, pathconf, xattr, inotify, handles. */
#include "calls.h"

#include <sys/inotify.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

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
