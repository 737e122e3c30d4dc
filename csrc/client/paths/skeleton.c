#include "skeleton.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../job/mounts.h"

static int make_one(const char *path)
{
    long rc = FAN_SYS(mkdirat, AT_FDCWD, path, 0700);
    return rc == -EEXIST ? 0 : (int)rc;
}

int fan_make_directories(char *path, size_t start, fan_make_directory *make)
{
    make = make != NULL ? make : make_one;
    int rc = make(path);
    for (char *slash = path + start; rc == -ENOENT && (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = '\0';
        rc = make(path);
        *slash = '/';
        rc = rc == 0 ? -ENOENT : rc;
    }
    return rc == -ENOENT ? make(path) : rc;
}

/* Writes the path of a real directory: in the mount itself if that exists on the real file system,
 * otherwise in the skeleton. */
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
    if (view->skeleton.bytes == 0)
        return -ENAMETOOLONG;
    int64_t length = fan_path_below(&view->skeleton, dataset, id, path, capacity);
    int rc = length > 0 ? fan_make_directories(path, view->skeleton.bytes - 1, NULL) : 0;
    return rc < 0 ? rc : length;
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
