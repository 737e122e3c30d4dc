#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/sys.h"
#include "resolve.h"

static bool in_group(gid_t wanted, gid_t own)
{
    if (wanted == own)
        return true;
    gid_t groups[1024];
    long count = FAN_SYS(getgroups, 1024, groups);
    for (long i = 0; i < count; i++) {
        if (groups[i] == wanted)
            return true;
    }
    return false;
}

/* The attributes that decide on permissions. */
struct rights {
    uint32_t mode;
    uid_t uid;
    gid_t gid;
};

/* Returns the three permission bits that apply to this process. */
static unsigned class_bits(const struct rights *rights, uid_t uid, gid_t gid)
{
    if (rights->uid == uid)
        return rights->mode >> 6 & 7;
    if (in_group(rights->gid, gid))
        return rights->mode >> 3 & 7;
    return rights->mode & 7;
}

static int check(const struct rights *rights, int mode, bool effective)
{
    uid_t uid = (uid_t)(effective ? FAN_SYS(geteuid) : FAN_SYS(getuid));
    gid_t gid = (gid_t)(effective ? FAN_SYS(getegid) : FAN_SYS(getgid));
    if (uid == 0) /* root may do everything, but run only what somebody may */
        return (mode & X_OK) && !S_ISDIR(rights->mode) && !(rights->mode & 0111) ? -EACCES : 0;
    return ((unsigned)mode & ~class_bits(rights, uid, gid)) != 0 ? -EACCES : 0;
}

static int check_record(const struct fan_dataset *dataset, const struct fan_record *record,
                        int mode, bool effective)
{
    struct rights rights = {.mode = record->mode};
    if (record->owner >= dataset->index.owner_count)
        return -EIO;
    const struct fan_owner *owner = &dataset->index.owners[record->owner];
    rights.uid = owner->uid;
    rights.gid = owner->gid;
    return check(&rights, mode, effective);
}

int fan_permitted(const struct fan_dataset *dataset, uint64_t id, int mode, bool effective)
{
    const struct fan_record *record = fan_index_record(&dataset->index, id);
    if (record == NULL)
        return -EIO;
    if ((mode & W_OK) && S_ISREG(record->mode))
        return -EROFS;
    bool open_to_all = S_ISDIR(record->mode) ? dataset->all_searchable && dataset->all_readable
                                             : dataset->all_readable && !(mode & X_OK);
    if (S_ISLNK(record->mode) || (mode & (R_OK | X_OK)) == 0 || open_to_all)
        return 0;
    return check_record(dataset, record, mode & (R_OK | X_OK), effective);
}

int fan_target_permitted(const struct fan_target *target, int mode, bool effective)
{
    const struct fan_output_attr *attr = &target->attr;
    if (target->where == FAN_MISSING)
        return -target->error;
    if (target->where != FAN_OUTPUT)
        return fan_permitted(target->dataset, target->id, mode, effective);
    struct rights rights = {attr->mode, attr->uid, attr->gid};
    return mode == F_OK || S_ISLNK(attr->mode) ? 0 : check(&rights, mode, effective);
}

int fan_directory_permitted(const struct fan_target *target, int mode)
{
    bool other = target->where != FAN_MISSING && !S_ISDIR(fan_target_mode(target));
    return other ? -ENOTDIR : fan_target_permitted(target, mode, true);
}
