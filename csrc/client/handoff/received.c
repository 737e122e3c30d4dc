#include "handoff.h"

#include <fcntl.h>
#include <limits.h>

#include "../../common/sys.h"
#include "../content/copyname.h"
#include "../files/filetable.h"
#include "../open/open.h"
#include "../outputs/outputs.h"
#include "../paths/linked.h"

/* Returns whether a file may be a real copy: it has no name any more, or never had one. */
static bool may_be_copy(const struct stat *st)
{
    return (S_ISREG(st->st_mode) || S_ISLNK(st->st_mode)) && st->st_nlink == 0;
}

static bool identify(int fd, struct fan_copy_name *copy)
{
    char link[PATH_MAX];
    return fan_fd_path(fd, link, sizeof(link)) > 0 && fan_copy_name_of_link(link, copy);
}

bool fan_is_copy_of(int fd, const struct fan_view *view, uint64_t id)
{
    struct fan_copy_name copy;
    return identify(fd, &copy) && copy.view == view && copy.id == id;
}

static bool take_copy(int fd)
{
    struct fan_copy_name copy;
    if (!identify(fd, &copy))
        return false;
    int flags = fan_sys_fcntl(fd, F_GETFL, 0);
    bool path = flags >= 0 && (flags & O_PATH) != 0;
    struct fan_file *file = fan_file_new(copy.view, copy.id, path ? FAN_FILE_PATH : FAN_FILE_COPY,
                                         (unsigned)copy.flags);
    return file != NULL && fan_file_install(fd, file) == 0;
}

bool fan_received_late(int fd, const struct stat *st)
{
    return fan_job.view_count > 0 && may_be_copy(st) && take_copy(fd);
}

void fan_received(int fd)
{
    struct stat st;
    fan_file_remove(fd);
    if (FAN_SYS(fstat, fd, &st) != 0)
        return;
    if (may_be_copy(&st))
        take_copy(fd);
    else if ((S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)) && fan_job.view_count > 0 &&
             !fan_tree_noticed(fd) && S_ISDIR(st.st_mode))
        fan_open_noticed(fd, fan_sys_fcntl(fd, F_GETFL, 0));
}
