/* Directories: listing them, glob, and the working directory. */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../files/of_file.h"
#include "../../client/paths/cwd.h"
#include "../../client/open/dirstream.h"
#include "../../client/paths/linked.h"
#include "../../client/open/open.h"
#include "../../client/paths/output_tree.h"
#include "../../client/outputs/outputs.h"
#include "../../client/paths/skeleton.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../by_path.h"
#include "../cancel.h"
#include "../log.h"
#include "../real.h"
#include "../undeclared.h"

/* Lets libc list a directory of the output tree. The library records that the descriptor is one of
 * the tree. */
static DIR *open_tree(const struct fan_target *target)
{
    int fd = fan_tree_open(target, O_RDONLY | O_NONBLOCK | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *dir = fd >= 0 ? REAL(fdopendir)(fd) : NULL;
    if (fd < 0)
        errno = -fd;
    else if (dir == NULL)
        fan_close_quietly(fd);
    return dir;
}

static DIR *open_ours(const struct fan_target *target)
{
    if (target->where == FAN_TREE)
        return open_tree(target);
    int error = 0;
    struct fan_dirstream *stream = fan_dirstream_open(target, &error);
    if (stream == NULL)
        errno = -error;
    return (DIR *)(void *)stream;
}

/* Checks a directory that the kernel opened: a link may have led to one of a mount. */
static DIR *check_opened(DIR *dir)
{
    const char *rest;
    if (dir == NULL || fan_job.view_count == 0 || fan_is_far_fd(REAL(dirfd)(dir)))
        return dir;
    FAN_OFF_STACK(struct fan_target_room, room);
    if (room == NULL || fan_fd_path_real(REAL(dirfd)(dir), room->path, sizeof(room->path)) <= 0 ||
        fan_outputs_match(room->path, &rest) != NULL ||
        fan_unskeleton(room->path, strlen(room->path), sizeof(room->path)) < 0 ||
        fan_match_prefix(room->path, &rest) == NULL ||
        (!fan_locate(AT_FDCWD, room->path, 0, &room->target) && room->target.where != FAN_TREE) ||
        room->target.where == FAN_MISSING)
        return dir;
    REAL(closedir)(dir);
    return open_ours(&room->target);
}

FAN_EXPORT DIR *opendir(const char *path)
{
    struct fan_target target;
    bool ours = fan_locate(AT_FDCWD, path, 0, &target) || target.where == FAN_TREE;
    DIR *dir = ours ? open_ours(&target) : REAL(opendir)(target.path);
    if (!ours && dir == NULL && errno == ENOENT && fan_relocate(AT_FDCWD, path, 0, &target))
        dir = target.where == FAN_OUTSIDE ? REAL(opendir)(target.path) : open_ours(&target);
    else if (!ours)
        dir = check_opened(dir);
    return fan_logged_pointer("opendir", path, &target, dir);
}

FAN_EXPORT DIR *fdopendir(int fd)
{
    struct fan_file *file = fan_file_get(fd);
    if (file == NULL && fan_open_noticed(fd, fan_sys_fcntl(fd, F_GETFL, 0)))
        file = fan_file_get(fd);
    if (file == NULL || file->kind == FAN_FILE_NEAR || file->kind == FAN_FILE_OUTPUT)
        return REAL(fdopendir)(fd);
    bool listed = fan_file_is_directory(file);
    int error = listed && fan_directory_is_path(file) ? -EBADF : -ENOTDIR;
    struct fan_dirstream *stream =
        listed && error == -ENOTDIR ? fan_dirstream_open_fd(fd, file, &error) : NULL;
    if (stream == NULL)
        errno = -error;
    else
        fan_sys_fcntl(fd, F_SETFD, FD_CLOEXEC);
    return (DIR *)(void *)stream;
}

/* Returns an entry of libc's own stream with the inode number and the type that stat(2) shows. */
static struct dirent *shown(DIR *dir, struct dirent *entry)
{
    int fd = entry != NULL && fan_job.view_count > 0 ? REAL(dirfd)(dir) : -1;
    const struct fan_file *file = fd >= 0 ? fan_file_get(fd) : NULL;
    if (file != NULL && file->kind == FAN_FILE_OUTPUT) {
        entry->d_ino = fan_shown_inode(fd, entry->d_name, entry->d_ino);
        entry->d_type = fan_tree_shown_type(entry->d_type);
    }
    return entry;
}

FAN_EXPORT struct dirent *readdir(DIR *dir)
{
    struct fan_dirstream *stream = fan_dirstream_of(dir);
    if (stream == NULL)
        return shown(dir, REAL(readdir)(dir));
    int error;
    struct dirent *entry = fan_dirstream_read(stream, &error);
    if (error != 0)
        errno = -error;
    return entry;
}

FAN_EXPORT int readdir_r(DIR *dir, struct dirent *entry, struct dirent **result)
{
    struct fan_dirstream *stream = fan_dirstream_of(dir);
    if (stream == NULL) {
        int rc = REAL(readdir_r)(dir, entry, result);
        if (rc == 0)
            shown(dir, *result);
        return rc;
    }
    int error;
    struct dirent *next = fan_dirstream_read(stream, &error);
    *result = NULL;
    if (next != NULL) {
        memcpy(entry, next, next->d_reclen);
        *result = entry;
    }
    return -error;
}

FAN_EXPORT int closedir(DIR *dir)
{
    struct fan_dirstream *stream = fan_given(dir) ? fan_dirstream_of(dir) : NULL;
    if (stream == NULL) {
        if (fan_job.view_count > 0 && fan_given(dir)) /* libc closes it itself */
            fan_file_remove(REAL(dirfd)(dir));
        return REAL(closedir)(dir);
    }
    int fd = fan_dirstream_close(stream);
    return fd >= 0 ? fan_close_quietly(fd) : 0;
}

FAN_EXPORT void rewinddir(DIR *dir)
{
    struct fan_dirstream *stream = fan_dirstream_of(dir);
    if (stream == NULL)
        REAL(rewinddir)(dir);
    else
        fan_dirstream_rewind(stream);
}

FAN_EXPORT void seekdir(DIR *dir, long position)
{
    struct fan_dirstream *stream = fan_dirstream_of(dir);
    if (stream == NULL)
        REAL(seekdir)(dir, position);
    else
        fan_dirstream_seek(stream, position);
}

FAN_EXPORT long telldir(DIR *dir)
{
    struct fan_dirstream *stream = fan_dirstream_of(dir);
    return stream == NULL ? REAL(telldir)(dir) : fan_dirstream_tell(stream);
}

FAN_EXPORT int dirfd(DIR *dir)
{
    struct fan_dirstream *stream = fan_dirstream_of(dir);
    return stream == NULL ? REAL(dirfd)(dir) : (int)fan_answer(fan_dirstream_fd(stream));
}

typedef int filter_fn(const struct dirent *);
typedef int compare_fn(const struct dirent **, const struct dirent **);

static int add_entry(struct dirent ***list, size_t *count, size_t *room, const struct dirent *entry)
{
    if (*count == *room) {
        size_t more = *room > 0 ? 2 * *room : 16;
        struct dirent **grown = realloc(*list, more * sizeof(*grown));
        if (grown == NULL)
            return -1;
        *list = grown;
        *room = more;
    }
    struct dirent *copy = malloc(entry->d_reclen);
    if (copy == NULL)
        return -1;
    memcpy(copy, entry, entry->d_reclen);
    (*list)[(*count)++] = copy;
    return 0;
}

static int scan(const struct fan_target *target, struct dirent ***names, filter_fn *filter,
                compare_fn *compare)
{
    DIR *dir = open_ours(target);
    if (dir == NULL)
        return -1;
    struct dirent **list = NULL, *entry;
    size_t count = 0, room = 0;
    int failed = 0;
    while (!failed && (entry = readdir(dir)) != NULL) {
        if (filter == NULL || filter(entry))
            failed = add_entry(&list, &count, &room, entry);
    }
    closedir(dir);
    if (failed) {
        while (count > 0)
            free(list[--count]);
        free(list);
        errno = ENOMEM;
        return -1;
    }
    if (compare != NULL && count > 0)
        qsort(list, count, sizeof(*list), (int (*)(const void *, const void *))compare);
    *names = list != NULL ? list : malloc(sizeof(*list));
    return (int)count;
}

FAN_EXPORT int scandirat(int dirfd, const char *path, struct dirent ***names, filter_fn *filter,
                         compare_fn *compare)
{
    FAN_BY_PATH(dirfd, path, 0, scan(&target, names, filter, compare),
                target.where == FAN_TREE
                    ? scan(&target, names, filter, compare)
                    : REAL(scandirat)(target.dirfd, target.path, names, filter, compare));
}

static void close_for_glob(void *dir)
{
    closedir(dir);
}

/* libc's glob calls libc's own opendir and stat; GLOB_ALTDIRFUNC makes it call those of this
 * library. */
FAN_EXPORT int glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found)
{
    if (fan_job.view_count == 0 || (flags & GLOB_ALTDIRFUNC))
        return REAL(glob)(pattern, flags, error, found);
    found->gl_opendir = (void *(*)(const char *))opendir;
    found->gl_readdir = (struct dirent * (*)(void *)) readdir;
    found->gl_closedir = close_for_glob;
    found->gl_stat = stat;
    found->gl_lstat = lstat;
    int rc = REAL(glob)(pattern, flags | GLOB_ALTDIRFUNC, error, found);
    found->gl_flags &= ~GLOB_ALTDIRFUNC;
    return rc;
}

/* Changes into the directory of the output tree that stands for a directory of outputs. */
static int enter_output(struct fan_target *target)
{
    target->where = FAN_BEYOND;
    int fd = fan_open(target, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int rc = (int)FAN_SYS(fchdir, fd);
    fan_close_quietly(fd);
    return rc;
}

static int chdir_ours(struct fan_target *target)
{
    int rc = fan_directory_permitted(target, X_OK);
    if (rc == 0)
        rc = target->where == FAN_OUTPUT
                 ? enter_output(target)
                 : fan_skeleton_chdir(target->view, target->dataset, target->id);
    return (int)fan_answer(rc);
}

FAN_EXPORT int chdir(const char *path)
{
    struct fan_target target;
    bool ours = fan_locate(AT_FDCWD, path, 0, &target);
    int rc = ours ? chdir_ours(&target) : REAL(chdir)(target.path);
    if (!ours && rc < 0 && errno == ENOENT && fan_relocate(AT_FDCWD, path, 0, &target))
        rc = fan_target_is_real(&target) ? REAL(chdir)(target.path) : chdir_ours(&target);
    fan_cwd_changed();
    return (int)fan_logged("chdir", path, &target, rc);
}

FAN_EXPORT int fchdir(int fd)
{
    int rc = REAL(fchdir)(fd);
    fan_cwd_changed();
    return rc;
}

FAN_EXPORT char *getcwd(char *buffer, size_t bytes)
{
    char path[PATH_MAX];
    if (fan_job.view_count == 0)
        return REAL(getcwd)(buffer, bytes);
    long length = fan_cwd_path(path, sizeof(path));
    if (length < 0 || path[0] != '/') /* too long for the library, or unreachable: libc answers */
        return REAL(getcwd)(buffer, bytes);
    if (buffer == NULL) {
        buffer = malloc(bytes > 0 ? bytes : (size_t)length + 1);
        if (buffer == NULL)
            return NULL;
        if (bytes > 0 && (size_t)length >= bytes) {
            free(buffer);
            errno = ERANGE;
            return NULL;
        }
    } else if (bytes == 0 || (size_t)length >= bytes) {
        errno = bytes == 0 ? EINVAL : ERANGE;
        return NULL;
    }
    memcpy(buffer, path, (size_t)length + 1);
    return buffer;
}

/* Returns the name in $PWD if that leads to the working directory. */
FAN_EXPORT char *get_current_dir_name(void)
{
    struct stat here, named;
    if (fan_job.view_count == 0)
        return REAL(get_current_dir_name)();
    const char *name = getenv("PWD");
    bool same = name != NULL && name[0] == '/' && stat(".", &here) == 0 &&
                stat(name, &named) == 0 && here.st_dev == named.st_dev &&
                here.st_ino == named.st_ino;
    return same ? strdup(name) : getcwd(NULL, 0);
}

FAN_EXPORT char *getwd(char *buffer)
{
    return fan_job.view_count == 0 ? REAL(getwd)(buffer) : getcwd(buffer, PATH_MAX);
}

FAN_EXPORT char *__getwd_chk(char *buffer, size_t room)
{
    char *path = getcwd(buffer, room < PATH_MAX ? room : PATH_MAX);
    if (path == NULL && errno == ERANGE)
        __chk_fail();
    return path;
}
