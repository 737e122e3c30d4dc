/*
 * Mappings that change. One of an input shows a part of a pack or of a copy: what the kernel would
 * let grow there, or move within, shows other bytes than the file's.
 */
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>

#include "../client/filetable.h"
#include "../client/mapped.h"
#include "../client/mapping.h"
#include "../common/sys.h"
#include "real.h"

enum { PAGE = 4096 };

static size_t page_up(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Maps `bytes` of the file, from `skip` behind the found place on, at an address. 0 or -errno. */
static int map_more(const struct fan_mapped *found, char *at, size_t skip, size_t bytes, int how)
{
    struct fan_file *file = fan_file_new(found->view, found->id, FAN_FILE_REGULAR, 0);
    if (file == NULL)
        return -ENOMEM;
    long got = fan_mmap(file, at, bytes, found->prot,
                        how | (found->shared ? MAP_SHARED : MAP_PRIVATE),
                        found->offset + (int64_t)skip);
    fan_file_put(file);
    if (fan_sys_failed(got))
        return -ENOMEM;
    if (got == (long)at)
        return 0;
    fan_sys_munmap((void *)got, bytes); /* a kernel that takes the address for a hint */
    return -ENOMEM;
}

/* Moves a mapping to `room` and lets the file go on behind it. The address or -errno. */
static long move_and_grow(const struct fan_mapped *found, char *old, size_t have, size_t all,
                          char *room)
{
    int rc = all > have ? map_more(found, room + have, have, all - have, MAP_FIXED) : 0;
    return rc != 0 ? rc
                   : FAN_SYS(mremap, old, have, have, MREMAP_MAYMOVE | MREMAP_FIXED, room);
}

/* A mapping of a file goes on behind its end: where there is room, else, when it may, at a place
 * where there is. */
static long grow(const struct fan_mapped *found, char *old, size_t have, size_t all, bool may_move)
{
    if (all == have || map_more(found, old + have, have, all - have, MAP_FIXED_NOREPLACE) == 0)
        return (long)old;
    if (!may_move)
        return -ENOMEM;
    long room =
        fan_sys_mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fan_sys_failed(room))
        return room;
    long moved = move_and_grow(found, old, have, all, (char *)room);
    if (fan_sys_failed(moved))
        fan_sys_munmap((void *)room, all);
    return moved;
}

static long remap(const struct fan_mapped *found, char *old, size_t have, size_t all, int flags,
                  char *to)
{
    if (have == 0 || (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) || (uintptr_t)to % PAGE != 0)
        return -EINVAL;
    return flags & MREMAP_FIXED ? move_and_grow(found, old, have, all, to)
                                : grow(found, old, have, all, flags != 0);
}

FAN_EXPORT void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...)
{
    struct fan_mapped found;
    va_list list;
    va_start(list, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
    va_end(list);
    if (fan_job.view_count == 0 || bytes <= old_bytes || (uintptr_t)old % PAGE != 0 ||
        !fan_mapped_at(old, &found))
        return REAL(mremap)(old, old_bytes, bytes, flags, to);
    long got = remap(&found, old, page_up(old_bytes), page_up(bytes), flags, to);
    if (!fan_sys_failed(got))
        return (void *)got;
    errno = (int)-got;
    return MAP_FAILED;
}

FAN_EXPORT int remap_file_pages(void *at, size_t bytes, int prot, size_t page, int flags)
{
    struct fan_mapped found;
    if (fan_job.view_count > 0 && fan_mapped_at(at, &found))
        return (int)fan_answer(-EINVAL);
    return REAL(remap_file_pages)(at, bytes, prot, page, flags);
}
