#include "skeleton.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../job/known.h"
#include "../job/mounts.h"
#include "../machine/spelling.h"

/* Makes the directory `path[0..length)`, relative to `top`. 0 where it is there already, too. */
static int make_one(int top, char *path, size_t length)
{
    char kept = path[length];
    path[length] = '\0';
    long rc = FAN_SYS(mkdirat, top, path, 0700);
    path[length] = kept;
    return rc == -EEXIST ? 0 : (int)rc;
}

/* Makes the directory `path[0..length)`, relative to `top`, and those above it down from `start`: a
 * deep one takes one call where the one above it is there. */
static int make_chain(int top, char *path, size_t start, size_t length)
{
    size_t end = length;
    const char *slash;
    int rc = make_one(top, path, end);
    while (rc == -ENOENT && (slash = memrchr(path + start + 1, '/', end - start - 1)) != NULL) {
        end = (size_t)(slash - path);
        rc = make_one(top, path, end);
    }
    while (rc == 0 && end < length) {
        const char *next = memchr(path + end + 1, '/', length - end - 1);
        end = next != NULL ? (size_t)(next - path) : length;
        rc = make_one(top, path, end);
    }
    return rc;
}

/* The path of a directory in the skeleton. The length or -ENAMETOOLONG. */
static int64_t skeleton_path(const struct fan_view *view, const char *relpath, char *path,
                             size_t capacity)
{
    size_t start = view->skeleton.bytes;
    bool fits = start > 0 && fan_join(path, capacity, view->skeleton.text, start, relpath);
    return fits ? (int64_t)strlen(path) : -ENAMETOOLONG;
}

static int64_t make_real(const struct fan_view *view, const char *relpath, char *path,
                         size_t capacity)
{
    int64_t length = skeleton_path(view, relpath, path, capacity);
    if (length < 0)
        return length;
    int rc = make_chain(AT_FDCWD, path, view->skeleton.bytes - 1, (size_t)length);
    return rc < 0 ? rc : length;
}

/* The deepest spelling that works: the mount's own path where it is real, else the skeleton's. */
static int64_t real_path(const struct fan_view *view, const struct fan_dataset *dataset,
                         uint64_t id, struct fan_path *room)
{
    char *path = room->text;
    size_t capacity = sizeof(room->text);
    if (!view->prefix_made) {
        int64_t length = fan_full_path(view, dataset, id, path, capacity);
        struct stat st;
        if (length > 0 && FAN_SYS(newfstatat, AT_FDCWD, path, &st, 0) == 0 && S_ISDIR(st.st_mode))
            return length;
    }
    size_t start = view->skeleton.bytes;
    if (start == 0 || start + 2 > capacity)
        return -ENAMETOOLONG;
    memcpy(path, view->skeleton.text, start);
    path[start++] = '/';
    int64_t bytes = fan_index_path(&dataset->index, id, path + start, capacity - start - 1);
    if (bytes < 0)
        return bytes == -ERANGE ? -ENAMETOOLONG : bytes;
    size_t length = bytes > 0 ? start + (size_t)bytes : start - 1;
    path[length] = '\0';
    int rc = make_chain(AT_FDCWD, path, view->skeleton.bytes - 1, length);
    return rc < 0 ? rc : (int64_t)length;
}

int fan_skeleton_open(struct fan_view *view, struct fan_dataset *dataset, uint64_t id, int flags)
{
    FAN_OFF_STACK(struct fan_path, path);
    int64_t length = path == NULL ? -ENOMEM : real_path(view, dataset, id, path);
    return length < 0 ? (int)length : fan_sys_openat(AT_FDCWD, path->text, flags, 0);
}

int fan_skeleton_chdir(struct fan_view *view, struct fan_dataset *dataset, uint64_t id)
{
    FAN_OFF_STACK(struct fan_path, path);
    int64_t length = path == NULL ? -ENOMEM : real_path(view, dataset, id, path);
    return length < 0 ? (int)length : (int)FAN_SYS(chdir, path->text);
}

static int open_top(const struct fan_view *view)
{
    const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    if (view->skeleton.bytes == 0)
        return -ENAMETOOLONG;
    int top = fan_sys_openat(AT_FDCWD, view->skeleton.text, flags, 0);
    if (top != -ENOENT)
        return top;
    long rc = FAN_SYS(mkdirat, AT_FDCWD, view->skeleton.text, 0700);
    return rc < 0 && rc != -EEXIST
               ? (int)rc
               : fan_sys_openat(AT_FDCWD, view->skeleton.text, flags, 0);
}

/* Opens a directory below `top`, which is closed, name by name, and makes what is missing. */
static int open_made(int top, const char *relpath, int flags)
{
    char name[NAME_MAX + 1];
    while (top >= 0 && *relpath != '\0') {
        const char *end = fan_component_end(relpath);
        size_t bytes = (size_t)(end - relpath);
        if (bytes >= sizeof(name)) {
            fan_sys_close(top);
            return -ENAMETOOLONG;
        }
        memcpy(name, relpath, bytes);
        name[bytes] = '\0';
        relpath = *end == '/' ? end + 1 : end;
        FAN_SYS(mkdirat, top, name, 0700);
        bool last = *relpath == '\0';
        int next = fan_sys_openat(top, name, last ? flags | O_DIRECTORY
                                                  : O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
        fan_sys_close(top);
        top = next;
    }
    return top;
}

/* The same open directory under the lowest number there is. */
static int lowered(int fd, int flags)
{
    if (fd < 0)
        return fd;
    int other = fan_sys_fcntl(fd, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
    if (other < 0)
        return fd;
    fan_sys_close(other < fd ? fd : other);
    return other < fd ? other : fd;
}

/* No path is put together: programs have small stacks. */
int fan_skeleton_open_output(struct fan_view *view, const char *relpath, int flags)
{
    int top = open_top(view);
    if (top < 0)
        return top;
    int fd = fan_sys_openat(top, *relpath != '\0' ? relpath : ".", flags | O_DIRECTORY, 0);
    if (fd == -ENOENT)
        fd = open_made(top, relpath, flags);
    else
        fan_sys_close(top);
    return lowered(fd, flags);
}

int fan_skeleton_chdir_output(struct fan_view *view, const char *relpath)
{
    char path[PATH_MAX];
    int64_t length = make_real(view, relpath, path, sizeof(path));
    return length < 0 ? (int)length : (int)FAN_SYS(chdir, path);
}

/* Who has remembered the path of a directory (outdir.h) is to ask for it again. */
static void begin_move(void)
{
    struct fan_names names;
    if (fan_job_names(&names))
        __atomic_fetch_add(&names.header->moves_begun, 1, __ATOMIC_SEQ_CST);
}

static void end_move(void)
{
    struct fan_names names;
    if (fan_job_names(&names))
        __atomic_fetch_add(&names.header->moves_done, 1, __ATOMIC_SEQ_CST);
}

/* No path is put together: a rename has two on its stack already. */
void fan_skeleton_move(struct fan_view *view, char *from, char *to)
{
    if (view->skeleton.bytes == 0)
        return;
    int top = fan_sys_openat(AT_FDCWD, view->skeleton.text, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (top < 0)
        return;
    if (FAN_SYS(faccessat, top, from, F_OK) == 0) {
        char *name = strrchr(to, '/');
        begin_move();
        FAN_SYS(unlinkat, top, to, AT_REMOVEDIR);
        if (name == NULL || make_chain(top, to, 0, (size_t)(name - to)) == 0)
            FAN_SYS(renameat2, top, from, top, to, 0);
        end_move();
    }
    fan_sys_close(top);
}

void fan_skeleton_remove(struct fan_view *view, const char *relpath)
{
    char path[PATH_MAX];
    if (skeleton_path(view, relpath, path, sizeof(path)) <= 0)
        return;
    begin_move();
    FAN_SYS(unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    end_move();
}
