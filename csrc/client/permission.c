#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/sys.h"
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

/* The three permission bits that apply to this process. */
static unsigned class_bits(const struct fan_record *record, const struct fan_owner *owner,
                           uid_t uid, gid_t gid)
{
    if (owner->uid == uid)
        return record->mode >> 6 & 7;
    if (in_group(owner->gid, gid))
        return record->mode >> 3 & 7;
    return record->mode & 7;
}

static int check_record(const struct fan_dataset *dataset, const struct fan_record *record,
                        int mode, bool effective)
{
    uid_t uid = (uid_t)(effective ? FAN_SYS(geteuid) : FAN_SYS(getuid));
    gid_t gid = (gid_t)(effective ? FAN_SYS(getegid) : FAN_SYS(getgid));
    if (uid == 0) /* root may all, but run only what somebody may */
        return (mode & X_OK) && !S_ISDIR(record->mode) && !(record->mode & 0111) ? -EACCES : 0;
    if (record->owner >= dataset->index.owner_count)
        return -EIO;
    unsigned bits = class_bits(record, &dataset->index.owners[record->owner], uid, gid);
    return ((unsigned)mode & ~bits) != 0 ? -EACCES : 0;
}

int fan_permitted(const struct fan_dataset *dataset, uint64_t id, int mode, bool effective)
{
    const struct fan_record *record = fan_index_record(&dataset->index, id);
    if (record == NULL)
        return -EIO;
    if (mode & W_OK) {
        int rc = S_ISREG(record->mode) || S_ISDIR(record->mode) ? -EROFS : 0;
        if (rc != 0)
            return rc;
    }
    bool open_to_all = S_ISDIR(record->mode) ? dataset->all_searchable && dataset->all_readable
                                             : dataset->all_readable && !(mode & X_OK);
    if (S_ISLNK(record->mode) || mode == F_OK || open_to_all)
        return 0;
    return check_record(dataset, record, mode & (R_OK | X_OK), effective);
}
