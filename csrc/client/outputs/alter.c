/* chmod, chown and utimens of outputs that nobody is writing. */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../common/sys.h"
#include "../job/known.h"
#include "../job/objects.h"
#include "own.h"
#include "turn.h"

#define SECOND_NS INT64_C(1000000000)

/* What is to become of attributes. object: that of a file, else 0; file: where that is. */
struct altering {
    const struct fan_output_request *request;
    uint64_t object;
    char file[FAN_OUTPUT_PATH_MAX];
};

static bool alters(const struct altering *altering, unsigned bits)
{
    return (altering->request->change & bits) != 0;
}

/* Of a directory or link, whose attributes are in the segment alone. */
static void alter_name(const struct altering *altering, struct fan_output_attr *attr)
{
    const struct fan_output_request *request = altering->request;
    struct timespec now = {0};
    if (alters(altering, FAN_OUTPUT_MODE))
        attr->mode = (attr->mode & S_IFMT) | (request->mode & 07777);
    if (alters(altering, FAN_OUTPUT_UID))
        attr->uid = request->uid;
    if (alters(altering, FAN_OUTPUT_GID))
        attr->gid = request->gid;
    if (alters(altering, FAN_OUTPUT_ATIME))
        attr->atime_ns = request->atime_ns;
    if (alters(altering, FAN_OUTPUT_MTIME))
        attr->mtime_ns = request->mtime_ns;
    FAN_SYS(clock_gettime, CLOCK_REALTIME, &now);
    attr->ctime_ns = now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* Of a file, which has its own already. */
static bool take_from_file(const struct altering *altering, struct fan_output_attr *attr)
{
    struct stat st;
    uint64_t ino = attr->ino;
    if (attr->object != altering->object ||
        FAN_SYS(newfstatat, AT_FDCWD, altering->file, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    *attr = fan_output_attr_of(&st);
    attr->object = altering->object;
    attr->ino = ino;
    return true;
}

/* In between it may have become something else. */
static bool alter(const void *how, struct fan_output_attr *attr)
{
    const struct altering *altering = how;
    if (S_ISREG(attr->mode))
        return take_from_file(altering, attr);
    if (altering->object != 0)
        return false;
    alter_name(altering, attr);
    return true;
}

static struct timespec time_of(const struct altering *altering, unsigned bit, int64_t ns)
{
    if (!alters(altering, bit))
        return (struct timespec){0, UTIME_OMIT};
    int64_t part = (ns % SECOND_NS + SECOND_NS) % SECOND_NS;
    return (struct timespec){(ns - part) / SECOND_NS, part};
}

/* As fanstore/outputs/objects/objects.py does it. Where it fails the daemon says why. */
static bool alter_file(const struct altering *altering)
{
    const struct fan_output_request *request = altering->request;
    const uid_t uid = alters(altering, FAN_OUTPUT_UID) ? request->uid : (uid_t)-1;
    const gid_t gid = alters(altering, FAN_OUTPUT_GID) ? request->gid : (gid_t)-1;
    const struct timespec times[2] = {time_of(altering, FAN_OUTPUT_ATIME, request->atime_ns),
                                      time_of(altering, FAN_OUTPUT_MTIME, request->mtime_ns)};
    const char *file = altering->file;
    if (alters(altering, FAN_OUTPUT_UID | FAN_OUTPUT_GID) &&
        FAN_SYS(fchownat, AT_FDCWD, file, uid, gid, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (alters(altering, FAN_OUTPUT_MODE) &&
        FAN_SYS(fchmodat, AT_FDCWD, file, request->mode & 07777) != 0)
        return false;
    return !alters(altering, FAN_OUTPUT_ATIME | FAN_OUTPUT_MTIME) ||
           FAN_SYS(utimensat, AT_FDCWD, file, times, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether this process may do it as it is asked to: else the daemon says what is wrong. */
static bool may_alter(const struct altering *altering, const struct fan_output_attr *attr)
{
    const struct fan_output_request *request = altering->request;
    bool follow = !(request->how & FAN_OUTPUT_NOFOLLOW);
    bool link = S_ISLNK(attr->mode) && (follow || alters(altering, FAN_OUTPUT_MODE));
    return !link && (!alters(altering, FAN_OUTPUT_UID) || request->uid == attr->uid ||
                     FAN_SYS(geteuid) == 0);
}

int fan_own_alter(const struct fan_target *target, const struct fan_output_request *request)
{
    struct altering altering = {.request = request};
    struct fan_wish wish = {
        .change = {.kind = FAN_CHANGE_ALTERED, .object = alters(&altering, FAN_OUTPUT_MTIME)},
        .alter = alter,
        .how = &altering};
    struct fan_output_attr attr;
    struct fan_names names;
    if (!fan_own_path(target, &wish.path) || !fan_job_names(&names) ||
        fan_change_home(&names, &wish.path) != names.header->rank)
        return FAN_NAMES_ASK;
    char *unused = altering.file; /* of a link its target goes there */
    int rc = fan_names_look(&names, &wish.path, false, &attr, unused, sizeof(altering.file));
    if (rc != 0 || !may_alter(&altering, &attr))
        return rc != 0 ? rc : FAN_NAMES_ASK;
    if (S_ISREG(attr.mode)) {
        altering.object = attr.object;
        if (!fan_output_object_path(attr.object, altering.file) || !alter_file(&altering))
            return FAN_NAMES_ASK;
    }
    return fan_turn(&wish);
}
