/* Ends walks (walk.h): outside, at a missing name, or with the daemon's answer. */
#include <errno.h>
#include <fcntl.h>

#include "../../common/sys.h"
#include "../machine/spelling.h"
#include "output_tree.h"

bool fan_walk_outside(struct fan_target *target, int dirfd, const char *path)
{
    target->where = FAN_OUTSIDE;
    target->dirfd = dirfd;
    target->path = path;
    return false;
}

bool fan_walk_missing_name(const struct fan_walk *walk, int error, bool creatable, bool slash)
{
    struct fan_target *target = walk->target;
    target->where = FAN_MISSING;
    target->view = walk->view;
    target->dataset = walk->dataset;
    target->id = walk->id;
    target->error = error;
    target->creatable = creatable;
    target->slash = slash;
    return true;
}

bool fan_walk_missing(const struct fan_walk *walk, int error, bool creatable)
{
    return fan_walk_missing_name(walk, error, creatable, false);
}

bool fan_walk_unusable(const struct fan_walk *walk)
{
    int fd = fan_sys_openat(AT_FDCWD, fan_job.directory.text, O_PATH | O_CLOEXEC, 0);
    if (fd >= 0)
        fan_sys_close(fd);
    bool full = fd == -EMFILE || fd == -ENFILE;
    return fan_walk_missing(walk, (int)-(full ? fd : fan_count_error(-EIO)), false);
}

bool fan_walk_put(struct fan_target *target, const char *head, size_t head_bytes, const char *tail)
{
    return fan_join(target->buffer, sizeof(target->buffer), head, head_bytes, tail);
}

/* Asks the daemon what the path in the target's buffer is among the outputs. */
static enum fan_walk_end ask(struct fan_walk *walk)
{
    struct fan_target *target = walk->target;
    bool stays = walk->flags & FAN_NOFOLLOW;
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_LOOKUP,
                                               .view = fan_output_view(walk->view),
                                               .how = stays ? FAN_OUTPUT_NOFOLLOW : 0},
                                   .path = target->buffer};
    struct fan_output_answer answer;
    int rc = fan_output_ask(&call, &answer, target->buffer);
    if (rc == 0 && answer.where == FAN_OUTPUT_ELSEWHERE)
        return ++walk->links > FAN_LINKS_MAX ? fan_walk_missing(walk, ELOOP, false) : FAN_WALK_ON;
    if (rc != 0 || answer.where != FAN_OUTPUT_HERE)
        return fan_walk_missing_name(walk, rc != 0 ? -rc : EIO, target->creatable, target->slash);
    target->where = FAN_OUTPUT;
    target->attr = answer.attr;
    return true;
}

enum fan_walk_end fan_walk_beyond(struct fan_walk *walk, bool last, bool slash)
{
    struct fan_target *target = walk->target;
    fan_walk_missing_name(walk, ENOENT, last, slash);
    target->where = FAN_BEYOND;
    target->path = target->buffer;
    return walk->flags & (FAN_DEFER | FAN_CHANGE) ? FAN_WALK_OURS : ask(walk);
}
