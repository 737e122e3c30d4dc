/* Answers chdir and exec of caught processes: makes real names, with which the kernel does the
 * call. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../client/content/realcopy.h"
#include "../client/files/filetable.h"
#include "../client/paths/linked.h"
#include "../common/sys.h"
#include "handlers.h"
#include "names.h"
#include "origin.h"
#include "tree.h"

/* Returns whether the kernel finds a directory at a path by itself. */
static bool is_there(const char *path)
{
    struct stat st;
    return FAN_SYS(newfstatat, AT_FDCWD, path, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

/* If the process is in a directory of the tree, makes the directory `path` there, because the
 * kernel continues in the tree. */
static void lead_in_tree(const struct fan_call *call, const char *path)
{
    char link[32], here[PATH_MAX];
    const char *rest;
    struct fan_view *view = fan_match_prefix(path, &rest);
    snprintf(link, sizeof(link), "/proc/%d/cwd", call->tid);
    fan_sys_readlink(AT_FDCWD, link, here, sizeof(here));
    if (view == NULL || !fan_origin_is_ours(here))
        return;
    int fd = fan_trap_tree_open(view, rest, path, FAN_TRAP_TREE_CHANGES, 0);
    if (fd >= 0)
        fan_sys_close(fd);
}

long fan_handle_chdir(const struct fan_call *call)
{
    struct fan_spots spots;
    struct stat st;
    if (!fan_run_find(call, &spots))
        return FAN_CALL_CONTINUE;
    const struct fan_spot *spot = &spots.spot[0];
    if (stat(spot->path, &st) != 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (access(spot->path, X_OK) != 0)
        return -errno;
    if (spot->given[0] != '/')
        lead_in_tree(call, spot->path);
    int rc = fan_names_lead(spot->path);
    if (rc == -EOPNOTSUPP && is_there(spot->path))
        rc = 0; /* the directory existed before the mount */
    return rc == 0 ? FAN_CALL_CONTINUE : rc;
}

/* Copies a program of a mount to a file of the tree, and writes its path. */
static int copy_program(struct fan_file *file, char path[PATH_MAX])
{
    char name[FAN_COPY_NAME_BYTES], fresh[PATH_MAX];
    struct stat st;
    fan_origin_name(file->view, file->id, name);
    if (snprintf(path, PATH_MAX, "%s/%s", fan_origin_root, name) >= PATH_MAX)
        return -ENAMETOOLONG;
    if (FAN_SYS(newfstatat, AT_FDCWD, path, &st, 0) == 0)
        return 0;
    if (snprintf(fresh, PATH_MAX, "%s.%d", path, (int)FAN_SYS(gettid)) >= PATH_MAX)
        return -ENAMETOOLONG;
    int rc = fan_real_file(file, fresh, 0500);
    if (rc != 0)
        return rc;
    rc = (int)FAN_SYS(renameat2, AT_FDCWD, fresh, AT_FDCWD, path, 0);
    if (rc != 0)
        FAN_SYS(unlinkat, AT_FDCWD, fresh, 0);
    return rc;
}

/* Writes the path of the real file behind a program, which is opened as `fd`. */
static int real_program(int fd, char path[PATH_MAX])
{
    struct fan_file *file = fan_file_get(fd);
    if (file != NULL && file->kind == FAN_FILE_REGULAR)
        return copy_program(file, path);
    long length = fan_fd_path_real(fd, path, PATH_MAX);
    return length < 0 ? (int)length : 0;
}

long fan_handle_execve(const struct fan_call *call)
{
    char path[PATH_MAX];
    struct fan_spots spots;
    struct stat st;
    const struct fan_spot *spot = &spots.spot[0];
    if (!fan_run_find(call, &spots) || spot->given[0] == '\0')
        return FAN_CALL_CONTINUE; /* also for an open copy, which the kernel starts */
    if (stat(spot->path, &st) != 0 || access(spot->path, X_OK) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EACCES;
    int fd = open(spot->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int rc = real_program(fd, path);
    close(fd);
    rc = rc == 0 ? fan_names_program(spot->path, path) : rc;
    if (rc == -EOPNOTSUPP && FAN_SYS(newfstatat, AT_FDCWD, spot->path, &st, 0) == 0)
        rc = 0; /* the file existed before the mount */
    return rc == 0 ? FAN_CALL_CONTINUE : rc;
}
