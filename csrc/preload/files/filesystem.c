/* Calls that ask for properties of the file system of a path or descriptor: space, limits, extended
 * attributes. */
#include <fcntl.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../../client/machine/copy.h"
#include "../../client/open/stat.h"
#include "../by_path.h"
#include "../real.h"
#include "of_file.h"

static int statfs_ours(const struct fan_target *target, struct statfs *fs)
{
    if (target->where == FAN_MISSING)
        return (int)fan_answer(-target->error);
    fan_statfs(target->view, target->dataset, fs);
    return 0;
}

static int statvfs_ours(const struct fan_target *target, struct statvfs *fs)
{
    if (target->where == FAN_MISSING)
        return (int)fan_answer(-target->error);
    fan_statvfs(target->view, target->dataset, fs);
    return 0;
}

/* Returns whether a real call succeeded on a target in an output tree: an output shows the mount's
 * properties, as an input does. */
static bool in_tree(const struct fan_target *target, int rc)
{
    return rc == 0 && target->where == FAN_TREE && fan_view_dataset(target->view) != NULL;
}

static int statfs_real(const struct fan_target *target, struct statfs *fs)
{
    int rc = REAL(statfs)(target->path, fs);
    if (in_tree(target, rc))
        fan_statfs(target->view, fan_view_dataset(target->view), fs);
    return rc;
}

static int statvfs_real(const struct fan_target *target, struct statvfs *fs)
{
    int rc = REAL(statvfs)(target->path, fs);
    if (in_tree(target, rc))
        fan_statvfs(target->view, fan_view_dataset(target->view), fs);
    return rc;
}

FAN_EXPORT int statfs(const char *path, struct statfs *fs)
{
    FAN_BY_PATH(AT_FDCWD, path, 0, statfs_ours(&target, fs), statfs_real(&target, fs));
}

FAN_EXPORT int statvfs(const char *path, struct statvfs *fs)
{
    FAN_BY_PATH(AT_FDCWD, path, 0, statvfs_ours(&target, fs), statvfs_real(&target, fs));
}

/* Returns whether a query on a descriptor must show the mount's properties. */
static bool shows_mount(const struct fan_file *file)
{
    return file != NULL && file->kind != FAN_FILE_NEAR;
}

FAN_EXPORT int fstatfs(int fd, struct statfs *fs)
{
    struct fan_file *file = fan_file_get(fd);
    if (!shows_mount(file))
        return REAL(fstatfs)(fd, fs);
    fan_statfs(file->view, file->dataset, fs);
    return 0;
}

FAN_EXPORT int fstatvfs(int fd, struct statvfs *fs)
{
    struct fan_file *file = fan_file_get(fd);
    if (!shows_mount(file))
        return REAL(fstatvfs)(fd, fs);
    fan_statvfs(file->view, file->dataset, fs);
    return 0;
}

/* Returns the answer for extended attributes: an error for a missing target, else `when_found`. A
 * dataset stores no attributes; the kernel keeps those of outputs. */
static long no_attributes(const struct fan_target *target, long when_found)
{
    return fan_answer(target->where == FAN_MISSING ? -target->error : when_found);
}

/* Returns the errno for the name of an attribute: there is none of this name, or there can be
 * none. */
static int unnamed(const char *name)
{
    static const char *const spaces[] = {"user.", "trusted.", "security.", "system."};
    char own[XATTR_NAME_MAX + 1];
    size_t bytes = 0;
    do {
        int rc = fan_copy(&own[bytes], name + bytes, 1);
        if (rc != 0)
            return rc;
    } while (own[bytes] != '\0' && bytes++ < XATTR_NAME_MAX);
    if (bytes == 0 || bytes > XATTR_NAME_MAX)
        return -ERANGE;
    for (unsigned i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        if (strncmp(own, spaces[i], strlen(spaces[i])) == 0)
            return own[strlen(spaces[i])] != '\0' ? -ENODATA : -EINVAL;
    }
    return -EOPNOTSUPP;
}

static bool keeps_none(const struct fan_file *file)
{
    return shows_mount(file) && file->kind != FAN_FILE_OUTPUT;
}

FAN_EXPORT ssize_t getxattr(const char *path, const char *name, void *value, size_t bytes)
{
    FAN_BY_PATH(AT_FDCWD, path, 0, no_attributes(&target, unnamed(name)),
                REAL(getxattr)(target.path, name, value, bytes));
}

FAN_EXPORT ssize_t lgetxattr(const char *path, const char *name, void *value, size_t bytes)
{
    FAN_BY_PATH(AT_FDCWD, path, FAN_NOFOLLOW, no_attributes(&target, unnamed(name)),
                REAL(lgetxattr)(target.path, name, value, bytes));
}

FAN_EXPORT ssize_t fgetxattr(int fd, const char *name, void *value, size_t bytes)
{
    struct fan_file *file = fan_file_get(fd);
    if (!keeps_none(file))
        return REAL(fgetxattr)(fd, name, value, bytes);
    return fan_answer(fan_file_is_path(fd, file) ? -EBADF : unnamed(name));
}

FAN_EXPORT ssize_t listxattr(const char *path, char *list, size_t bytes)
{
    FAN_BY_PATH(AT_FDCWD, path, 0, no_attributes(&target, 0),
                REAL(listxattr)(target.path, list, bytes));
}

FAN_EXPORT ssize_t llistxattr(const char *path, char *list, size_t bytes)
{
    FAN_BY_PATH(AT_FDCWD, path, FAN_NOFOLLOW, no_attributes(&target, 0),
                REAL(llistxattr)(target.path, list, bytes));
}

FAN_EXPORT ssize_t flistxattr(int fd, char *list, size_t bytes)
{
    struct fan_file *file = fan_file_get(fd);
    if (!keeps_none(file))
        return REAL(flistxattr)(fd, list, bytes);
    return fan_answer(fan_file_is_path(fd, file) ? -EBADF : 0);
}

/* A mount has the limits of other file systems here: those of "/". */
FAN_EXPORT long pathconf(const char *path, int name)
{
    struct fan_target target;
    if (!fan_locate(AT_FDCWD, path, 0, &target))
        return REAL(pathconf)(target.path, name);
    return target.where == FAN_MISSING ? fan_answer(-target.error) : REAL(pathconf)("/", name);
}

FAN_EXPORT long fpathconf(int fd, int name)
{
    struct fan_file *file = fan_file_get(fd);
    return shows_mount(file) ? REAL(pathconf)("/", name) : REAL(fpathconf)(fd, name);
}
