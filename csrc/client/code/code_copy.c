/* Makes a file of a mount real at its place (code.h). */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "../paths/output_tree.h"
#include "../../common/descriptor.h"
#include "../../common/original.h"
#include "../../common/sys.h"
#include "../content/realcopy.h"
#include "../files/filetable.h"
#include "../job/fresh.h"
#include "../machine/spelling.h"
#include "../open/open.h"
#include "../paths/skeleton.h"
#include "code.h"

static const char TEMPORARY[] = "code/new";

enum { COPY_MODE = 0500 };

int fan_code_make_directory(char *place)
{
    return fan_make_directories(place, fan_job.directory.bytes, NULL);
}

static int make_above(const char *place, struct fan_code_room *room)
{
    const char *name = strrchr(place, '/');
    memcpy(room->above, place, (size_t)(name - place));
    room->above[name - place] = '\0';
    return fan_code_make_directory(room->above);
}

static bool same_file(const struct stat *wanted, const char *place)
{
    struct stat st;
    return FAN_SYS(newfstatat, AT_FDCWD, place, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_ino == wanted->st_ino && st.st_dev == wanted->st_dev;
}

/* Links the file at `from` to `place`, and replaces a file that is there. */
static int link_over(const char *from, const char *place, struct fan_code_room *room)
{
    long rc = fan_fresh_path(TEMPORARY, room->temporary, sizeof(room->temporary));
    if (rc != 0)
        return (int)rc;
    rc = FAN_SYS(linkat, AT_FDCWD, from, AT_FDCWD, room->temporary, AT_SYMLINK_FOLLOW);
    if (rc == 0)
        rc = FAN_SYS(renameat2, AT_FDCWD, room->temporary, AT_FDCWD, place, 0);
    FAN_SYS(unlinkat, AT_FDCWD, room->temporary, 0);
    return (int)rc;
}

/* Makes sure that `place` is a link to the file at `from`, whose attributes are `st`. keep: accepts
 * a file that another process put there first. */
static int link_to(const char *from, const struct stat *st, const char *place, bool keep,
                   struct fan_code_room *room)
{
    if (st != NULL && same_file(st, place))
        return 0;
    long rc = FAN_SYS(linkat, AT_FDCWD, from, AT_FDCWD, place, AT_SYMLINK_FOLLOW);
    if (rc == -ENOENT && make_above(place, room) == 0)
        rc = FAN_SYS(linkat, AT_FDCWD, from, AT_FDCWD, place, AT_SYMLINK_FOLLOW);
    if (rc != -EEXIST)
        return (int)rc;
    return keep ? 0 : link_over(from, place, room);
}

static int check_room(uint64_t bytes)
{
    struct statfs fs;
    long rc = FAN_SYS(statfs, fan_job.directory.text, &fs);
    if (rc < 0)
        return (int)rc;
    return bytes / (uint64_t)fs.f_bsize > fs.f_bavail / 2 ? -ENOSPC : 0;
}

/* Writes a copy of an open input to `place`, where it appears only when it is complete, unless one
 * is there. */
static int copy_to(struct fan_file *file, const char *place, struct fan_code_room *room)
{
    int rc = make_above(place, room);
    rc = rc == 0 ? check_room(file->record->logical_size) : rc;
    rc = rc == 0 ? fan_fresh_path(TEMPORARY, room->temporary, sizeof(room->temporary)) : rc;
    rc = rc == 0 ? fan_real_file(file, room->temporary, COPY_MODE) : rc;
    if (rc != 0)
        return rc;
    rc = link_to(room->temporary, NULL, place, true, room);
    FAN_SYS(unlinkat, AT_FDCWD, room->temporary, 0);
    return rc;
}

static int copy_input(struct fan_target *target, const char *place, struct fan_code_room *room)
{
    int fd = fan_open(target, O_RDONLY | O_CLOEXEC, 0);
    struct fan_file *file = fd >= 0 ? fan_file_get(fd) : NULL;
    if (file == NULL)
        return fd < 0 ? fd : -EIO;
    int rc = copy_to(file, place, room);
    fan_file_close(fd);
    return rc;
}

/* Makes `place` a symbolic link to the file room->own. */
static int point_to_own(const char *place, struct fan_code_room *room)
{
    struct stat own, is;
    long rc = FAN_SYS(newfstatat, AT_FDCWD, room->own, &own, 0);
    if (rc != 0)
        return (int)rc;
    if (FAN_SYS(newfstatat, AT_FDCWD, place, &is, 0) == 0 && is.st_ino == own.st_ino &&
        is.st_dev == own.st_dev)
        return 0;
    rc = make_above(place, room);
    rc = rc == 0 ? fan_fresh_path(TEMPORARY, room->temporary, sizeof(room->temporary)) : rc;
    if (rc == 0)
        rc = FAN_SYS(symlinkat, room->own, AT_FDCWD, room->temporary);
    return rc == 0 ? (int)FAN_SYS(renameat2, AT_FDCWD, room->temporary, AT_FDCWD, place, 0)
                   : (int)rc;
}

/* Writes the place of an input's copy: one for all its names, because the dynamic linker takes one
 * inode for one library. */
static int put_own(const struct fan_target *target, struct fan_code_room *room)
{
    int64_t length = fan_index_path(&target->dataset->index, target->id, room->relpath,
                                    sizeof(room->relpath) - 1);
    if (length < 0)
        return length == -ERANGE ? -ENAMETOOLONG : (int)length;
    room->relpath[length] = '\0';
    length = fan_code_place(target->view, room->relpath, room->own, sizeof(room->own));
    return length < 0 ? (int)length : 0;
}

static int make_input(struct fan_target *target, const char *place, struct fan_code_room *room)
{
    struct stat st;
    if (!S_ISREG(target->mode))
        return S_ISDIR(target->mode) ? -EISDIR : -EACCES;
    int rc = fan_permitted(target->dataset, target->id, R_OK, true);
    if (rc == 0 && target->dataset->has_originals) {
        /* Uses the original file, which the linker can open: a copy would take its space again. */
        rc = fan_original_path(&target->dataset->index, target->view->dataset_dir.text, target->id,
                               room->own);
        return rc == 0 ? point_to_own(place, room) : rc;
    }
    if (rc == 0)
        rc = put_own(target, room);
    if (rc != 0)
        return rc;
    rc = (int)FAN_SYS(newfstatat, AT_FDCWD, room->own, &st, AT_SYMLINK_NOFOLLOW);
    if (rc != 0)
        rc = copy_input(target, room->own, room);
    if (rc != 0 || strcmp(room->own, place) == 0)
        return rc;
    rc = (int)FAN_SYS(newfstatat, AT_FDCWD, room->own, &st, AT_SYMLINK_NOFOLLOW);
    return rc == 0 ? link_to(room->own, &st, place, false, room) : rc;
}

/* Makes an output real by its descriptor, because its name may be gone by now. */
static int make_output(int fd, const char *place, struct fan_code_room *room)
{
    char from[FAN_FD_LINK_BYTES];
    struct stat st;
    fan_fd_link(fd, from);
    int rc = (int)FAN_SYS(fstat, fd, &st);
    if (rc != 0)
        return rc;
    return S_ISREG(st.st_mode) ? link_to(from, &st, place, false, room) : -EISDIR;
}

/* Links to a file of the output tree, so that a program that replaces the file finds the new
 * one. */
static int make_in_tree(const struct fan_target *target, const char *place,
                        struct fan_code_room *room)
{
    struct stat st;
    long rc = FAN_SYS(newfstatat, target->dirfd, target->path, &st, 0);
    if (rc != 0 || !S_ISREG(st.st_mode))
        return rc != 0 ? (int)rc : S_ISDIR(st.st_mode) ? -EISDIR : -EACCES;
    int64_t length = fan_tree_path(target, room->own, sizeof(room->own));
    const struct fan_text *prefix = &target->view->prefix, *top = &target->view->outputs;
    if (length < 0 || !fan_join(room->own, sizeof(room->own), top->text, top->bytes,
                                room->own + prefix->bytes + 1))
        return -ENAMETOOLONG;
    return point_to_own(place, room);
}

int fan_code_make(struct fan_target *target, const char *place, struct fan_code_room *room)
{
    if (target->where == FAN_INPUT)
        return make_input(target, place, room);
    if (target->where == FAN_TREE)
        return make_in_tree(target, place, room);
    if (target->where == FAN_OUTPUT)
        target->where = FAN_BEYOND; /* to be opened by the path at which it was found */
    int fd = fan_open(target, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int rc = target->where == FAN_INPUT     ? make_input(target, place, room)
             : target->where == FAN_OUTSIDE ? -EXDEV
                                            : make_output(fd, place, room);
    fan_file_close(fd);
    return rc;
}
