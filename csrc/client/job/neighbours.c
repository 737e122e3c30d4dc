#include <fcntl.h>

#include "../../common/segment_check.h"
#include "../../common/sys.h"
#include "../machine/limits.h"
#include "packs.h"

/* The views of a neighbour's mounts; NULL until this process has mapped its segment. */
typedef _Atomic(struct fan_view *) neighbour;

/* One for each neighbour; made at the first look. */
static _Atomic(neighbour *) table;

static neighbour *all_neighbours(void)
{
    /* acquire: pairs with fan_sys_publish, so that the memory is zeroed before it is seen */
    neighbour *found = atomic_load_explicit(&table, memory_order_acquire);
    size_t bytes = fan_job.header->neighbour_count * sizeof(*found);
    return found != NULL ? found : fan_sys_publish(&table, fan_sys_memory(bytes), bytes);
}

/* Opens the segment of neighbour `number`. Returns a descriptor or -errno. */
static int open_segment(unsigned number)
{
    const struct fan_job_header *own = fan_job.header;
    const char *segment = (const char *)own;
    if (!fan_segment_has(own->segment_bytes, own->neighbours_offset, own->neighbour_count,
                         sizeof(struct fan_shm_string)))
        return -EINVAL;
    const struct fan_shm_string *paths = (const void *)(segment + own->neighbours_offset);
    char text[FAN_TEXT_MAX], *space = text;
    struct fan_text path;
    int rc = fan_copy_text(segment, own->segment_bytes, paths[number], &space, &path);
    return rc != 0 ? rc : (int)fan_sys_openat(AT_FDCWD, path.text, O_RDONLY | O_CLOEXEC, 0);
}

/* Returns views of the mounts of a mapped segment, or NULL if it is of another job. views_bytes:
 * set to the size of their memory. */
static struct fan_view *make_views(char *segment, uint64_t bytes, size_t *views_bytes)
{
    const struct fan_job_header *header = (const void *)segment;
    if (!fan_is_job_segment(header, bytes) || header->mount_count != fan_job.view_count)
        return NULL;
    const struct fan_mount *mounts = (const void *)(segment + header->mounts_offset);
    size_t views_end = header->mount_count * sizeof(struct fan_view);
    *views_bytes = views_end + fan_views_strings_bytes(mounts, header->mount_count);
    struct fan_view *views = fan_sys_memory(*views_bytes);
    char *space = (char *)views + views_end;
    if (views != NULL && fan_views_attach(segment, bytes, &space, views) != 0) {
        fan_sys_munmap(views, *views_bytes);
        return NULL;
    }
    return views;
}

/* Maps the segment of a neighbour, for reading only. Returns the views of its mounts; NULL if the
 * segment is not there yet, or not any more. */
static struct fan_view *attach(neighbour *place, unsigned number)
{
    uint64_t bytes;
    size_t views_bytes = 0;
    long at = fan_map_whole(open_segment(number), PROT_READ, &bytes);
    if (fan_sys_failed(at))
        return NULL;
    struct fan_view *views = make_views((char *)at, bytes, &views_bytes);
    struct fan_view *used = fan_sys_publish(place, views, views_bytes);
    if (used == NULL || used != views) /* another thread was faster: its views stay */
        fan_sys_munmap((void *)at, bytes);
    return used;
}

/* Returns the packs of a neighbour's mount, with the index that this process has mapped; NULL if
 * they are of another dataset. */
static struct fan_dataset *packs_of(struct fan_view *view, const struct fan_view *own,
                                    const struct fan_dataset *dataset)
{
    /* acquire: pairs with fan_sys_publish, so that the index is there */
    struct fan_dataset *packs = atomic_load_explicit(&view->dataset, memory_order_acquire);
    if (packs != NULL)
        return packs;
    if (view->device != own->device || view->pack_count != own->pack_count ||
        view->record_count != own->record_count)
        return NULL;
    size_t bytes = sizeof(*packs) + view->pack_count * sizeof(packs->packs[0]);
    packs = fan_sys_memory(bytes);
    if (packs != NULL)
        packs->index = dataset->index;
    return fan_sys_publish(&view->dataset, packs, bytes);
}

static const char *map_from(struct fan_view *view, struct fan_dataset *packs, uint32_t pack,
                            uint64_t id)
{
    /* The neighbour's daemon writes and checks a record before it sets the record's bit or clears
     * its bar (release); fan_view_bar and fan_pack_map_partial load both with acquire, before a
     * byte is read. If that daemon dies, no bit changes any more, and what is mapped stays. */
    if (fan_view_bar(view, pack, id) != FAN_NOT_BARRED)
        return NULL;
    switch (fan_view_place(view, pack)) {
    case FAN_PLACE_STAGED:
        return fan_pack_map(view, packs, pack);
    case FAN_PLACE_PARTIAL:
        return fan_pack_map_partial(view, packs, pack, id);
    default:
        return NULL;
    }
}

/* A neighbour's mount, and its packs. */
struct theirs {
    struct fan_view *view;
    struct fan_dataset *packs;
};

/* Returns the mapping of the neighbour's pack that has a record, and whose it is; or NULL. */
static const char *find(const struct fan_view *view, const struct fan_dataset *dataset,
                        uint32_t pack, uint64_t id, struct theirs *theirs)
{
    uint32_t count = fan_job.header->neighbour_count;
    bool partial = fan_view_place(view, pack) == FAN_PLACE_PARTIAL;
    uint32_t flags = __atomic_load_n(&view->places[pack].flags, __ATOMIC_RELAXED);
    if (count == 0 || (!partial && (flags & FAN_PLACE_AT_NEIGHBOUR) == 0) || fan_restricted())
        return NULL;
    neighbour *all = all_neighbours();
    for (unsigned i = 0; all != NULL && i < count; i++) {
        struct fan_view *views = atomic_load_explicit(&all[i], memory_order_acquire);
        views = views != NULL ? views : attach(&all[i], i);
        if (views == NULL)
            continue;
        theirs->view = &views[view->number];
        theirs->packs = packs_of(theirs->view, view, dataset);
        const char *base =
            theirs->packs != NULL ? map_from(theirs->view, theirs->packs, pack, id) : NULL;
        if (base != NULL)
            return base;
    }
    return NULL;
}

const char *fan_pack_map_neighbour(const struct fan_view *view, const struct fan_dataset *dataset,
                                   uint32_t pack, uint64_t id)
{
    struct theirs theirs;
    return find(view, dataset, pack, id, &theirs);
}

int fan_pack_open_neighbour(const struct fan_view *view, const struct fan_dataset *dataset,
                            uint32_t pack, uint64_t id)
{
    struct theirs theirs;
    if (find(view, dataset, pack, id, &theirs) == NULL)
        return -ENOENT;
    return fan_pack_open_here(theirs.view, theirs.packs, pack);
}

bool fan_is_pack_of_neighbour(const char *path)
{
    neighbour *all = atomic_load_explicit(&table, memory_order_acquire);
    for (unsigned i = 0; all != NULL && i < fan_job.header->neighbour_count; i++) {
        const struct fan_view *views = atomic_load_explicit(&all[i], memory_order_acquire);
        for (unsigned mount = 0; views != NULL && mount < fan_job.view_count; mount++)
            if (fan_is_pack_in(path, &views[mount].staged_dir))
                return true;
    }
    return false;
}
