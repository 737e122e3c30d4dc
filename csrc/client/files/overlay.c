#include "overlay.h"

#include <stddef.h>
#include <string.h>

#include "../../common/sys.h"
#include "file.h"

/* A change of descriptors; later changes override earlier ones. first == last, except for a closed
 * range. */
struct change {
    unsigned first, last;
    struct fan_file *file;
};

enum { CHANGES_FIRST = 1000 };

struct overlay {
    unsigned count;
    unsigned room;
    struct change changes[];
};

static __thread struct overlay *overlay __attribute__((tls_model("initial-exec")));

static size_t overlay_bytes(unsigned room)
{
    return sizeof(struct overlay) + room * sizeof(struct change);
}

static void end_overlay(void)
{
    struct overlay *ended = overlay;
    fan_vfork_over();
    overlay = NULL;
    if (ended == NULL)
        return;
    for (unsigned i = 0; i < ended->count; i++) {
        struct fan_file *file = ended->changes[i].file;
        if (file == NULL)
            continue;
        if (file->writable && atomic_load(&file->refs) == 1) /* only the child has it open */
            fan_file_hooks->disown(file);
        fan_file_put(file);
    }
    fan_sys_munmap(ended, overlay_bytes(ended->room));
}

bool fan_overlay_look(void)
{
    if (fan_is_vfork_child())
        return true;
    end_overlay();
    return false;
}

void fan_overlay_arm(void)
{
    fan_overlay_applies(); /* ends the overlay that an earlier child left */
    fan_vfork_expect();
}

void fan_overlay_forget(void)
{
    fan_vfork_over();
    overlay = NULL;
}

bool fan_overlay_get(int fd, struct fan_file **file)
{
    for (unsigned i = overlay != NULL ? overlay->count : 0; i > 0; i--) {
        const struct change *change = &overlay->changes[i - 1];
        if ((unsigned)fd >= change->first && (unsigned)fd <= change->last) {
            *file = change->file;
            return true;
        }
    }
    return false;
}

/* Makes room for one more change: allocates the list, or doubles its size. */
static bool make_room(void)
{
    unsigned room = overlay == NULL ? CHANGES_FIRST : overlay->room;
    if (overlay != NULL && overlay->count < room)
        return true;
    room = overlay == NULL ? room : 2 * room;
    struct overlay *grown = fan_sys_memory(overlay_bytes(room));
    if (grown == NULL)
        return false;
    if (overlay != NULL) {
        memcpy(grown, overlay, overlay_bytes(overlay->count));
        fan_sys_munmap(overlay, overlay_bytes(overlay->room));
    }
    grown->room = room;
    overlay = grown;
    return true;
}

static void add(unsigned first, unsigned last, struct fan_file *file)
{
    if (make_room())
        overlay->changes[overlay->count++] = (struct change){first, last, file};
    else if (file != NULL)
        fan_file_put(file); /* no memory: the placeholder answers EBADF */
}

void fan_overlay_set(int fd, struct fan_file *file)
{
    add((unsigned)fd, (unsigned)fd, file);
}

unsigned fan_overlay_references(const struct fan_file *file)
{
    unsigned references = 0;
    for (unsigned i = 0; overlay != NULL && i < overlay->count; i++)
        references += overlay->changes[i].file == file;
    return references;
}

void fan_overlay_close_range(unsigned first, unsigned last)
{
    add(first, last, NULL);
}

void fan_overlay_each(void (*visit)(int fd, struct fan_file *file, void *context), void *context)
{
    for (unsigned i = 0; overlay != NULL && i < overlay->count; i++) {
        const struct change *change = &overlay->changes[i];
        struct fan_file *latest;
        if (change->file != NULL && fan_overlay_get((int)change->first, &latest) &&
            latest == change->file)
            visit((int)change->first, change->file, context);
    }
}
