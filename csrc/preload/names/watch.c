/*
 * Watches (inotify). An input never changes: its watch is on an empty file of the job that stands
 * for it, and reports nothing. The watch of an input directory is on its counterpart in the output
 * tree. In a job of several ranks no process on this node knows of all changes, so the call fails,
 * and programs look by themselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "../../client/paths/output_tree.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../files/of_file.h"
#include "../real.h"

enum { NAME_BYTES = 48 };

/* Writes the path of the file that stands for an input; all names of the input share one. Returns 0
 * or -errno. */
static int stand_in(const struct fan_target *target, char path[PATH_MAX])
{
    size_t bytes = fan_job.directory.bytes;
    if (bytes + NAME_BYTES > PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(path, fan_job.directory.text, bytes);
    snprintf(path + bytes, NAME_BYTES, "/watched-%x-%llx",
             (unsigned)(target->view - fan_job.views), (unsigned long long)target->id);
    int rc = (int)FAN_SYS(mknodat, AT_FDCWD, path, S_IFREG | 0600, 0);
    return rc == -EEXIST ? 0 : rc;
}

static int watch_ours(int fd, const struct fan_target *target, uint32_t mask)
{
    if (target->where == FAN_MISSING)
        return (int)fan_answer(-target->error);
    bool directory = S_ISDIR(target->mode);
    if (target->where != FAN_INPUT || (directory && fan_tree_has_ranks()))
        return (int)fan_answer(-EOPNOTSUPP);
    FAN_OFF_STACK(struct fan_path, room);
    int rc = room != NULL ? fan_permitted(target->dataset, target->id, 4, true) : -ENOMEM;
    if (rc == 0)
        rc = directory ? fan_tree_counterpart(target->view, target->dataset, target->id, room->text,
                                              sizeof(room->text))
                       : stand_in(target, room->text);
    return rc == 0 ? REAL(inotify_add_watch)(fd, room->text, mask) : (int)fan_answer(rc);
}

FAN_EXPORT int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    struct fan_target target;
    unsigned how = FAN_THROUGH | (mask & IN_DONT_FOLLOW ? FAN_NOFOLLOW : 0u);
    bool ours = fan_job.view_count > 0 && fan_locate(AT_FDCWD, path, how, &target);
    int rc = ours ? watch_ours(fd, &target, mask)
             : fan_job.view_count > 0 && target.where == FAN_TREE
                 ? REAL(inotify_add_watch)(fd, target.path, mask)
                 : REAL(inotify_add_watch)(fd, path, mask);
    return (int)fan_of_file(rc, fd, EINVAL);
}
