#include "cwd.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../job/mounts.h"
#include "../machine/vfork.h"

/* kind, view and value in one word, so that threads see them together. While the kind is unknown,
 * value counts the changes, so that an answer from before the last change is not kept. */
static _Atomic uint64_t known;

enum { VIEW_SHIFT = 48, KIND_SHIFT = 56 };

static uint64_t pack_cwd(struct fan_cwd cwd)
{
    uint64_t view = cwd.view != NULL ? (uint64_t)(cwd.view - fan_job.views) : 0;
    return (uint64_t)cwd.kind << KIND_SHIFT | view << VIEW_SHIFT | cwd.value;
}

static struct fan_cwd unpack_cwd(uint64_t word)
{
    return (struct fan_cwd){
        .kind = (enum fan_cwd_kind)(word >> KIND_SHIFT),
        .view = &fan_job.views[word >> VIEW_SHIFT & 0xff],
        .value = word & ((UINT64_C(1) << VIEW_SHIFT) - 1),
    };
}

/* Replaces the first `skip` bytes of a path by a mount's prefix. Returns the new length, or -ERANGE
 * if the path does not fit. */
static long replace_head(char *path, size_t length, size_t skip, const struct fan_text *prefix,
                         size_t capacity)
{
    size_t now = prefix->bytes + (length - skip);
    if (now + 1 > capacity)
        return -ERANGE;
    memmove(path + prefix->bytes, path + skip, length - skip + 1);
    memcpy(path, prefix->text, prefix->bytes);
    return (long)now;
}

/* Rewrites a path in the job directory to the path in the mount: that of an output, or of a program
 * or library made real. */
static long unjob(char *path, size_t length, size_t capacity)
{
    const char *rest;
    const struct fan_view *view = path[0] == '/' ? fan_job_match(path, &rest) : NULL;
    if (view == NULL)
        return (long)length;
    size_t skip = (size_t)(rest - path) - (*rest != '\0');
    return replace_head(path, length, skip, &view->prefix, capacity);
}

long fan_unskeleton(char *path, size_t length, size_t capacity)
{
    for (unsigned i = 0; i < fan_job.view_count; i++) {
        const struct fan_view *view = &fan_job.views[i];
        size_t skip = view->skeleton.bytes;
        if (view->prefix_made || skip == 0 || length < skip ||
            memcmp(path, view->skeleton.text, skip) != 0 ||
            (path[skip] != '/' && path[skip] != '\0'))
            continue;
        return replace_head(path, length, skip, &view->prefix, capacity);
    }
    return unjob(path, length, capacity);
}

long fan_cwd_path(char *buffer, size_t capacity)
{
    long length = FAN_SYS(getcwd, buffer, capacity);
    return length < 0 ? length : fan_unskeleton(buffer, (size_t)length - 1, capacity);
}

static struct fan_cwd ask(void)
{
    struct path {
        char text[PATH_MAX + 256];
    };
    FAN_OFF_STACK(struct path, room);
    const char *rest;
    struct fan_view *view;
    struct fan_cwd cwd = {.kind = FAN_CWD_FAR};
    if (room == NULL)
        return cwd;
    char *path = room->text;
    long length = fan_cwd_path(path, sizeof(room->text));
    if (length <= 0 || path[0] != '/')
        return cwd;
    view = fan_match_prefix(path, &rest);
    if (view != NULL) {
        struct fan_dataset *dataset = fan_view_dataset(view);
        int64_t id = dataset == NULL ? -EIO
                                     : fan_index_lookup(&dataset->index, rest, strlen(rest));
        return id >= 0 ? (struct fan_cwd){FAN_CWD_INSIDE, view, (uint64_t)id}
                       : (struct fan_cwd){FAN_CWD_OUTPUT, view, 0};
    }
    size_t above = fan_match_above(path, &view);
    if (above > 0)
        cwd = (struct fan_cwd){FAN_CWD_NEAR, view, above};
    return cwd;
}

struct fan_cwd fan_cwd_get(void)
{
    if (__builtin_expect(fan_vfork_thread, 0) && fan_in_vfork_child())
        return ask();
    uint64_t word = atomic_load_explicit(&known, memory_order_acquire);
    if (word >> KIND_SHIFT != FAN_CWD_UNKNOWN)
        return unpack_cwd(word);
    struct fan_cwd cwd = ask();
    /* Keep the answer only if there was no chdir meanwhile. */
    atomic_compare_exchange_strong(&known, &word, pack_cwd(cwd));
    return cwd;
}

void fan_cwd_changed(void)
{
    static _Atomic uint64_t epoch;
    const uint64_t value_mask = (UINT64_C(1) << VIEW_SHIFT) - 1;
    if (!fan_in_vfork_child())
        atomic_store(&known, (atomic_fetch_add(&epoch, 1) + 1) & value_mask);
}
