#include "moved.h"

#include <errno.h>

#include "../../common/sys.h"
#include "../machine/park.h"
#include "../machine/vfork.h"
#include "arena.h"
#include "file.h"
#include "store.h"

void fan_moved_prepare(const struct fan_file *file)
{
    if (file->kind == FAN_FILE_REGULAR && !fan_in_vfork_child())
        fan_arena_store(file->slot, true);
}

int fan_moved_fetch(const struct fan_slot *slot)
{
    int64_t key = atomic_load(&slot->offset);
    int store = fan_arena_store(slot, false);
    int fd = store >= 0 ? fan_store_get(store, key) : store;
    return fd == -ENOENT ? -EIO : fd;
}

/* A description in use for one call. This process keeps it once fetched, except in a vfork
 * child. */
struct loan {
    int fd;
    bool own;
};

static struct loan borrow(struct fan_file *file)
{
    int fd = fan_in_vfork_child() ? -1 : fan_parked(&file->moved);
    if (fd >= 0)
        return (struct loan){fd, false};
    fd = fan_moved_fetch(file->slot);
    if (fd < 0 || fan_in_vfork_child())
        return (struct loan){fd, true};
    int parked = fan_park(fd, &file->moved);
    if (parked >= 0)
        return (struct loan){parked, false};
    return (struct loan){fan_moved_fetch(file->slot), true};
}

static long give_back(struct loan loan, long answer)
{
    if (loan.own && loan.fd >= 0)
        fan_sys_close(loan.fd);
    return answer;
}

ssize_t fan_moved_read(struct fan_file *file, void *to, size_t bytes)
{
    struct loan loan = borrow(file);
    return give_back(loan, loan.fd < 0 ? loan.fd : FAN_SYS(read, loan.fd, to, bytes));
}

ssize_t fan_moved_readv(struct fan_file *file, const struct iovec *vector, int count)
{
    struct loan loan = borrow(file);
    return give_back(loan, loan.fd < 0 ? loan.fd : FAN_SYS(readv, loan.fd, vector, count));
}

int64_t fan_moved_seek(struct fan_file *file, int64_t offset, int whence)
{
    struct loan loan = borrow(file);
    return give_back(loan, loan.fd < 0 ? loan.fd : FAN_SYS(lseek, loan.fd, offset, whence));
}

void fan_moved_end(struct fan_file *file)
{
    int fd = fan_parked(&file->moved);
    if (fd < 0)
        return;
    atomic_store(&file->moved, 0);
    fan_sys_close(fd);
}
