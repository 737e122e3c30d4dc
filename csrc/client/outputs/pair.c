#include "pair.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "../../common/sys.h"
#include "outputs.h"

void fan_end_locate(struct fan_end *end, int dirfd, const char *path, unsigned flags)
{
    end->flags = flags & ~(unsigned)FAN_MAKE;
    end->ours = fan_locate_change(dirfd, path, flags, &end->target);
}

/* Asks the daemon for the attributes of an end that is FAN_BEYOND. */
static int look(struct fan_end *end)
{
    struct fan_output_call call = {.request.op = FAN_OUTPUT_LOOKUP};
    struct fan_output_answer answer;
    call.request.how = end->flags & FAN_NOFOLLOW ? FAN_OUTPUT_NOFOLLOW : 0;
    int rc = fan_output_ask_of(&end->target, &call, end->flags | FAN_CHANGE | FAN_THROUGH, &answer,
                               NULL);
    if (rc != 0 || answer.where != FAN_OUTPUT_ELSEWHERE)
        return rc;
    end->ours = !fan_target_is_real(&end->target);
    return FAN_END_MOVED;
}

/* Returns the length of the path up to its last name. */
static size_t parent_bytes(const char *path)
{
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    while (length > 0 && path[length - 1] != '/')
        length--;
    return length;
}

/* Returns 0 if the directory of the last name exists, given that the name does not; or -errno. */
static int look_parent(const struct fan_end *end)
{
    const char *path = end->target.path;
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_LOOKUP,
                                               .view = fan_output_view(end->target.view)},
                                   .path = path,
                                   .cut_bytes = strlen(path) - parent_bytes(path)};
    struct fan_output_answer answer;
    return fan_output_ask(&call, &answer, NULL);
}

/* Like look_parent, for an end outside. Only the name itself may be missing. */
static int look_parent_outside(struct fan_target *target)
{
    struct stat st;
    long rc = FAN_SYS(newfstatat, target->dirfd, target->path, &st, AT_SYMLINK_NOFOLLOW);
    if (rc != -ENOENT || target->path[0] == '\0')
        return (int)rc;
    size_t bytes = parent_bytes(target->path);
    if (bytes >= sizeof(target->buffer))
        return -ENAMETOOLONG;
    if (bytes == 0)
        return (int)FAN_SYS(newfstatat, target->dirfd, ".", &st, 0);
    if (target->path != target->buffer) /* the path is the caller's: the buffer is free */
        memcpy(target->buffer, target->path, bytes);
    char kept = target->buffer[bytes];
    target->buffer[bytes] = '\0';
    rc = FAN_SYS(newfstatat, target->dirfd, target->buffer, &st, 0);
    target->buffer[bytes] = kept;
    return (int)rc;
}

int fan_end_reached(struct fan_end *end)
{
    struct fan_target *target = &end->target;
    if (!end->ours)
        return look_parent_outside(target);
    if (target->where == FAN_INPUT || target->creatable)
        return 0;
    if (target->where == FAN_MISSING)
        return -target->error;
    int rc = look(end);
    return rc == -ENOENT ? look_parent(end) : rc;
}

/* Returns -errno if the real file system has no such file. */
static int look_outside(const struct fan_end *end)
{
    struct stat st;
    int how = end->flags & FAN_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0;
    how |= end->flags & FAN_EMPTY_PATH ? AT_EMPTY_PATH : 0;
    return (int)FAN_SYS(newfstatat, end->target.dirfd, end->target.path, &st, how);
}

int fan_end_exists(struct fan_end *end)
{
    if (!end->ours)
        return look_outside(end);
    if (end->target.where == FAN_MISSING)
        return -end->target.error;
    return end->target.where == FAN_BEYOND ? look(end) : 0;
}

/* Writes the path of an end in its mount. The path of an input is made from its record. */
static int path_of(struct fan_end *end, const char **path)
{
    struct fan_target *target = &end->target;
    if (target->where == FAN_INPUT) {
        int64_t length = fan_index_path(&target->dataset->index, target->id, target->buffer,
                                        sizeof(target->buffer) - 1);
        if (length < 0)
            return length == -ERANGE ? -ENAMETOOLONG : (int)length;
        target->buffer[length] = '\0';
        target->path = target->buffer;
    }
    *path = target->path;
    return 0;
}

/* Looks at both ends again, after the daemon said that one of them leads out of the outputs.
 * Returns FAN_END_MOVED, or -EXDEV if neither has moved. */
static int look_at_both(struct fan_end *from, struct fan_end *to)
{
    bool moved = from->target.where == FAN_BEYOND && look(from) == FAN_END_MOVED;
    moved = (to->target.where == FAN_BEYOND && look(to) == FAN_END_MOVED) || moved;
    return moved ? FAN_END_MOVED : -EXDEV;
}

int fan_output_pair(struct fan_output_call *call, struct fan_end *from, struct fan_end *to)
{
    struct fan_output_answer answer;
    int rc = path_of(from, &call->path);
    rc = rc == 0 ? path_of(to, &call->other) : rc;
    if (rc != 0)
        return rc;
    call->request.view = fan_output_view(from->target.view);
    call->request.other_view = fan_output_view(to->target.view);
    call->request.how = from->flags & FAN_NOFOLLOW ? FAN_OUTPUT_NOFOLLOW : 0;
    rc = fan_output_ask(call, &answer, NULL);
    bool elsewhere = rc == 0 && answer.where == FAN_OUTPUT_ELSEWHERE;
    return elsewhere || rc == -EXDEV ? look_at_both(from, to) : rc;
}
