#include "outputs.h"

#include <string.h>

#include "../../common/sys.h"
#include "../paths/output_tree.h"

enum { BLOCK_BYTES = 4096 };

int fan_output_ask_of(struct fan_target *target, struct fan_output_call *call, unsigned flags,
                      struct fan_output_answer *answer, char text[FAN_OUTPUT_PATH_MAX])
{
    call->request.view = fan_output_view(target->view);
    call->path = target->path;
    char *way = text != NULL ? text : target->buffer; /* small stacks */
    int rc = text != NULL ? fan_output_ask(call, answer, text)
                          : fan_output_ask_way(call, answer, way);
    if (rc == 0 && answer->where == FAN_OUTPUT_ELSEWHERE)
        fan_locate_again(target, way, flags);
    return rc;
}

static struct timespec time_of(int64_t ns)
{
    const int64_t second = INT64_C(1000000000);
    int64_t rest = (ns % second + second) % second;
    return (struct timespec){.tv_sec = (ns - rest) / second, .tv_nsec = rest};
}

void fan_output_stat(const struct fan_view *view, const struct fan_output_attr *attr,
                     struct stat *st)
{
    memset(st, 0, sizeof(*st));
    st->st_dev = view->device;
    st->st_ino = attr->ino;
    st->st_mode = attr->mode;
    st->st_nlink = attr->nlink;
    st->st_uid = attr->uid;
    st->st_gid = attr->gid;
    st->st_size = (off_t)attr->size;
    st->st_blksize = BLOCK_BYTES;
    st->st_blocks = (blkcnt_t)attr->blocks;
    st->st_atim = time_of(attr->atime_ns);
    st->st_mtim = time_of(attr->mtime_ns);
    st->st_ctim = time_of(attr->ctime_ns);
}

/* Asks the daemon for the attributes of a directory by its name. A directory that was removed has
 * none. */
static int stat_directory(int fd, const struct fan_file *file, struct stat *st)
{
    struct fan_target target;
    if (fan_locate(fd, "", FAN_EMPTY_PATH, &target) && target.where == FAN_OUTPUT) {
        fan_output_stat(target.view, &target.attr, st);
        return 0;
    }
    int rc = (int)FAN_SYS(fstat, fd, st);
    st->st_dev = file->view->device;
    st->st_nlink = 0;
    return rc;
}

int fan_output_fstat(int fd, const struct fan_file *file, struct stat *st)
{
    if (file->kind == FAN_FILE_OUTDIR)
        return stat_directory(fd, file, st);
    int rc = (int)FAN_SYS(fstat, fd, st);
    fan_tree_show(file->view, st);
    if (fan_is_copied(file))
        st->st_ino = file->id;
    return rc;
}
