#include "linked.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "../../common/sys.h"
#include "../job/job.h"

/* A directory above a mount; or, with `whole`, a mount's directory that existed before the job.
 * Then any directory on the same device may be in the mount. */
struct place {
    dev_t device;
    ino_t inode;
    bool whole;
};

enum { PLACES_MAX = 128 };
static struct place places[PLACES_MAX];
static unsigned place_count;
static atomic_int state; /* NEW, then LEARNING by one thread, then KNOWN or, for good, UNKNOWN */
enum { NEW = 0, LEARNING, KNOWN, UNKNOWN };

static bool learn_place(const char *path, bool whole)
{
    struct stat st;
    if (place_count == PLACES_MAX || FAN_SYS(newfstatat, AT_FDCWD, path, &st, 0) != 0)
        return false;
    places[place_count++] = (struct place){st.st_dev, st.st_ino, whole};
    return true;
}

/* Adds the directories above a mount to the list, from the root down. */
static bool learn_view(const struct fan_view *view)
{
    char path[PATH_MAX];
    bool known = view->prefix.bytes < sizeof(path) && learn_place("/", false);
    for (size_t i = 1; known && i < view->prefix.bytes; i++) {
        if (view->prefix.text[i] != '/')
            continue;
        memcpy(path, view->prefix.text, i);
        path[i] = '\0';
        known = learn_place(path, false);
    }
    return known && (view->prefix_made || learn_place(view->prefix.text, true));
}

static __attribute__((noinline)) bool learn(void)
{
    int expected = NEW;
    if (!atomic_compare_exchange_strong(&state, &expected, LEARNING))
        return expected == KNOWN;
    bool known = true;
    for (unsigned i = 0; known && i < fan_job.view_count; i++)
        known = learn_view(&fan_job.views[i]);
    atomic_store(&state, known ? KNOWN : UNKNOWN);
    return known;
}

static bool is_far(const struct stat *st)
{
    bool private = (st->st_mode & 077) == 0; /* like all directories that FanStore makes */
    if (private || (atomic_load_explicit(&state, memory_order_acquire) != KNOWN && !learn()))
        return false;
    for (unsigned i = 0; i < place_count; i++) {
        if (st->st_dev == places[i].device && (places[i].whole || st->st_ino == places[i].inode))
            return false;
    }
    return true;
}

bool fan_is_far_fd(int fd)
{
    struct stat st;
    return FAN_SYS(fstat, fd, &st) == 0 && (!S_ISDIR(st.st_mode) || is_far(&st));
}
