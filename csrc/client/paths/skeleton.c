#include "skeleton.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
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
