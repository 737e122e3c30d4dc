/*
 * Mappings that change. One of an input shows a part of a pack or of a copy: what the kernel would
 * let grow there, or move within, shows other bytes than the file's.
 */
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>

#include "../../client/content/content_io.h"
#include "../../client/files/filetable.h"
#include "../../client/content/mapped.h"
#include "../../client/content/mapping.h"
#include "../../common/sys.h"
#include "../real.h"

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
    int rc = fan_content_open(file);
    long got = rc != 0 ? rc
                       : fan_mmap(file, at, bytes, found->prot,
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

static long move_piece(char *from, size_t bytes, char *to)
{
    return FAN_SYS(mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}

/* Moves what may be several mappings of the kernel's, which it may refuse to move at once. On an
 * error what has been moved goes back. 0 or -errno. */
static int move_all(char *from, size_t bytes, char *to)
{
    for (size_t at = 0, piece; at < bytes; at += piece) {
        size_t left = fan_mapped_as_one(from + at);
        piece = left < bytes - at ? left : bytes - at;
        long rc = piece > 0 ? move_piece(from + at, piece, to + at) : -EFAULT;
        if (!fan_sys_failed(rc))
            continue;
        if (at > 0)
            move_all(to, at, from);
        return (int)rc;
    }
    return 0;
}

/* Moves a mapping to `room` and lets the file go on behind it. The address or -errno. */
static long move_and_grow(const struct fan_mapped *found, char *old, size_t have, size_t all,
                          char *room)
{
    int rc = all > have ? map_more(found, room + have, have, all - have, MAP_FIXED) : 0;
    rc = rc == 0 ? move_all(old, have, room) : rc;
    return rc != 0 ? rc : (long)room;
}

/* Room for a mapping that may move. */
static long find_room(size_t bytes)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    return fan_sys_mmap(NULL, bytes, PROT_NONE, flags, -1, 0);
}

/* A mapping of a file goes on behind its end: where there is room, else, when it may, at a place
 * where there is. */
static long grow(const struct fan_mapped *found, char *old, size_t have, size_t all, bool may_move)
{
    if (all == have || map_more(found, old + have, have, all - have, MAP_FIXED_NOREPLACE) == 0)
        return (long)old;
    long room = may_move ? find_room(all) : -ENOMEM;
    if (fan_sys_failed(room))
        return room;
    long moved = move_and_grow(found, old, have, all, (char *)room);
    if (fan_sys_failed(moved))
        fan_sys_munmap((void *)room, all);
    return moved;
}

/* A length of 0 asks for a second mapping of the same. */
static long duplicate(const struct fan_mapped *found, size_t all, bool may_move, char *to)
{
    if (!found->shared || !may_move)
        return -EINVAL;
    long room = to != NULL ? (long)to : find_room(all);
    int rc = fan_sys_failed(room) ? (int)room : map_more(found, (char *)room, 0, all, MAP_FIXED);
    if (rc != 0 && to == NULL && !fan_sys_failed(room))
        fan_sys_munmap((void *)room, all);
    return rc != 0 ? rc : room;
}

/* Moves the first `all` bytes of a mapping and ends the rest. */
static long move_and_shrink(char *old, size_t have, size_t all, char *to)
{
    int rc = move_all(old, all, to);
    if (rc == 0 && have > all)
        fan_sys_munmap(old + all, have - all);
    return rc != 0 ? rc : (long)to;
}

static bool overlap(const char *one, size_t one_bytes, const char *other, size_t other_bytes)
{
    return one < other + other_bytes && other < one + one_bytes;
}

static long remap(const struct fan_mapped *found, char *old, size_t have, size_t all, int flags,
                  char *to)
{
    bool fixed = (flags & MREMAP_FIXED) != 0, may_move = (flags & MREMAP_MAYMOVE) != 0;
    if ((flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) || all == 0 || (fixed && !may_move) ||
        (uintptr_t)to % PAGE != 0 || (fixed && overlap(old, have, to, all)))
        return -EINVAL;
    if (have == 0)
        return duplicate(found, all, may_move, to);
    if (!fixed)
        return grow(found, old, have, all, may_move);
    return all > have ? move_and_grow(found, old, have, all, to)
                      : move_and_shrink(old, have, all, to);
}

/* Whether the kernel's own call does what is asked for: to cut off, and what names another thing
 * than a move. */
static bool leave_to_kernel(const void *old, size_t old_bytes, size_t bytes, int flags)
{
    bool shrinks = page_up(bytes) <= page_up(old_bytes);
    return fan_job.view_count == 0 || (uintptr_t)old % PAGE != 0 || !fan_mmap_was_made() ||
           (shrinks && flags != (MREMAP_MAYMOVE | MREMAP_FIXED));
}

FAN_EXPORT void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...)
{
    struct fan_mapped found;
    va_list list;
    va_start(list, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
    va_end(list);
    if (leave_to_kernel(old, old_bytes, bytes, flags) || !fan_mapped_at(old, &found))
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
