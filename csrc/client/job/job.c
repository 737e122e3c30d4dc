#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "../../common/original.h"
#include "../../common/segment_check.h"
#include "../../common/sys.h"
#include "../../pack/codec.h"
#include "../machine/fault.h"

struct fan_job fan_job __attribute__((aligned(4096)));

long fan_map_whole(int fd, int prot, uint64_t *bytes)
{
    struct stat st;
    if (fd < 0)
        return fd;
    long at = FAN_SYS(fstat, fd, &st);
    *bytes = at == 0 ? (uint64_t)st.st_size : 0;
    at = *bytes > 0 ? fan_sys_mmap(NULL, *bytes, prot, MAP_SHARED, fd, 0) : -EINVAL;
    fan_sys_close(fd);
    return at;
}

int fan_copy_text(const char *segment, uint64_t segment_bytes, struct fan_shm_string from,
                  char **space, struct fan_text *to)
{
    if (from.offset > segment_bytes || from.bytes > segment_bytes - from.offset ||
        from.bytes >= FAN_TEXT_MAX)
        return -EINVAL;
    memcpy(*space, segment + from.offset, from.bytes);
    (*space)[from.bytes] = '\0';
    to->text = *space;
    to->bytes = from.bytes;
    *space += from.bytes + 1;
    return 0;
}

size_t fan_views_strings_bytes(const struct fan_mount *mounts, unsigned count)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct fan_mount *mount = &mounts[i];
        bytes += mount->prefix.bytes % FAN_TEXT_MAX + mount->alias.bytes % FAN_TEXT_MAX +
                 mount->skeleton.bytes % FAN_TEXT_MAX + mount->index_path.bytes % FAN_TEXT_MAX +
                 mount->staged_dir.bytes % FAN_TEXT_MAX + mount->dataset_dir.bytes % FAN_TEXT_MAX +
                 mount->outputs.bytes % FAN_TEXT_MAX + 7;
    }
    return bytes;
}

/* Writes "NAME=VALUE" to our own memory, because a program may overwrite the environment with which
 * it was started. */
static const char *keep_variable(char **space, const char *name, const char *value)
{
    const char *kept = *space;
    *space = stpcpy(stpcpy(stpcpy(*space, name), "="), value) + 1;
    return kept;
}

/* Makes room for all texts, and keeps the two variables that programs' environments need. */
static int keep_variables(const struct fan_mount *mounts, unsigned count, const char *directory,
                          const char *library, char **space)
{
    size_t room = fan_views_strings_bytes(mounts, count) + strlen(directory) +
                  sizeof(FAN_JOB_ENV "=") +
                  (library != NULL ? strlen(library) + sizeof(FAN_PRELOAD_ENV "=") : 0);
    *space = fan_job.texts;
    if (room > sizeof(fan_job.texts)) {
        *space = fan_sys_memory(room);
        if (*space == NULL)
            return -ENOMEM;
    }
    fan_job.variable = keep_variable(space, FAN_JOB_ENV, directory);
    fan_job.directory =
        (struct fan_text){fan_job.variable + sizeof(FAN_JOB_ENV), strlen(directory)};
    if (library != NULL)
        fan_job.preload = keep_variable(space, FAN_PRELOAD_ENV, library);
    return 0;
}

static int attach_view(char *segment, uint64_t bytes, const struct fan_mount *mount, char **space,
                       struct fan_view *view)
{
    const struct fan_shm_string texts[] = {mount->prefix,     mount->alias,      mount->skeleton,
                                           mount->index_path, mount->staged_dir, mount->dataset_dir,
                                           mount->outputs};
    struct fan_text *to[] = {&view->prefix,     &view->alias,      &view->skeleton,
                             &view->index_path, &view->staged_dir, &view->dataset_dir,
                             &view->outputs};
    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (fan_copy_text(segment, bytes, texts[i], space, to[i]) != 0)
            return -EINVAL;
    }
    if (view->prefix.bytes < 2 || view->prefix.text[0] != '/' ||
        !fan_segment_has(bytes, mount->places_offset, mount->pack_count,
                         sizeof(struct fan_place)) ||
        !fan_segment_has(bytes, mount->damage_offset, mount->record_count / 64 + 1,
                         sizeof(uint64_t)) ||
        !fan_segment_has(bytes, mount->unchecked_offset, mount->record_count / 64 + 1,
                         sizeof(uint64_t)) ||
        !fan_segment_has(bytes, mount->touched_offset, mount->record_count / 64 + 1,
                         sizeof(uint64_t)))
        return -EINVAL;
    view->prefix_made = (mount->flags & FAN_MOUNT_PREFIX_MADE) != 0;
    view->crowded = (mount->flags & FAN_MOUNT_CROWDED) != 0;
    view->device = (dev_t)mount->device;
    view->record_count = mount->record_count;
    view->pack_count = mount->pack_count;
    view->places = (struct fan_place *)(segment + mount->places_offset);
    view->damage = (_Atomic uint64_t *)(segment + mount->damage_offset);
    view->unchecked = (_Atomic uint64_t *)(segment + mount->unchecked_offset);
    view->touched = (_Atomic uint64_t *)(segment + mount->touched_offset);
    return 0;
}

int fan_views_attach(char *segment, uint64_t bytes, char **space, struct fan_view *views)
{
    const struct fan_job_header *header = (const void *)segment;
    const struct fan_mount *mounts = (const void *)(segment + header->mounts_offset);
    int rc = 0;
    for (unsigned i = 0; i < header->mount_count && rc == 0; i++) {
        views[i].number = i;
        rc = attach_view(segment, bytes, &mounts[i], space, &views[i]);
    }
    return rc;
}

/* Finds the trace in the segment, and checks that it is inside. */
static int attach_trace(char *segment, uint64_t bytes, uint64_t offset)
{
    struct fan_trace *trace = (struct fan_trace *)(segment + offset);
    if (!fan_segment_has(bytes, offset, 1, sizeof(*trace)) || trace->lane_count < 2 ||
        trace->lane_count > FAN_LANES_MOST ||
        (trace->ring_notes != 0 && trace->ring_notes != FAN_RING_NOTES) ||
        trace->lanes_offset < offset || trace->rings_offset < offset ||
        !fan_segment_has(bytes, trace->lanes_offset, trace->lane_count, sizeof(struct fan_lane)) ||
        !fan_segment_has(bytes, trace->rings_offset,
                         (uint64_t)trace->lane_count * trace->ring_notes, sizeof(uint64_t)))
        return -EINVAL;
    bool notes = trace->ring_notes != 0;
    struct fan_lanes lanes = {
        .trace = trace,
        .lanes = (struct fan_lane *)(segment + trace->lanes_offset),
        .rings = notes ? (uint64_t *)(segment + trace->rings_offset) : NULL,
        .base_ns = trace->base_ns,
        .lane_count = trace->lane_count,
    };
    fan_lane_attach(&lanes);
    fan_fault_may_lose(trace, bytes - offset);
    return 0;
}

static struct fan_outputs *attach_outputs(char *segment, uint64_t bytes, uint64_t offset)
{
    bool there = offset != 0 && fan_segment_has(bytes, offset, 1, sizeof(struct fan_outputs));
    return there ? (struct fan_outputs *)(segment + offset) : NULL;
}

int fan_job_attach(const char *directory, const char *library)
{
    char path[4096];
    size_t length = strlen(directory);
    if (length == 0 || length + sizeof("/segment") > sizeof(path))
        return -ENAMETOOLONG;
    memcpy(path, directory, length);
    memcpy(path + length, "/segment", sizeof("/segment"));

    uint64_t bytes;
    int fd = fan_sys_openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    long at = fan_map_whole(fd, PROT_READ | PROT_WRITE, &bytes);
    if (fan_sys_failed(at))
        return (int)at;
    char *segment = (char *)at;
    struct fan_job_header *header = (void *)segment;
    if (!fan_is_job_segment(header, bytes))
        return -EINVAL;

    char *space;
    const struct fan_mount *mounts = (const void *)(segment + header->mounts_offset);
    int rc = keep_variables(mounts, header->mount_count, directory, library, &space);
    if (rc != 0)
        return rc;
    rc = fan_views_attach(segment, bytes, &space, fan_job.views);
    if (rc == 0)
        rc = attach_trace(segment, bytes, header->trace_offset);
    if (rc != 0)
        return rc;
    fan_job.outputs = attach_outputs(segment, bytes, header->outputs_offset);
    fan_job.header = header;
    fan_job.world_size = header->world_size;
    fan_job.view_count = header->mount_count;
    __atomic_fetch_add(&header->processes, 1, __ATOMIC_RELAXED);
    return 0;
}

long fan_count_eio(void)
{
    FAN_COUNT(errors, 1);
    return -EIO;
}

/* Loads the codecs now, because a read may be in a signal handler. */
static void load_codecs(const struct fan_index *index)
{
    for (unsigned codec = 1; codec < 32; codec++) {
        if (index->header->codec_mask >> codec & 1)
            fan_codec_load(codec);
    }
}

struct fan_dataset *fan_view_map(struct fan_view *view)
{
    uint64_t bytes;
    int fd = fan_sys_openat(AT_FDCWD, view->index_path.text, O_RDONLY | O_CLOEXEC, 0);
    long mapped = fan_map_whole(fd, PROT_READ, &bytes);
    if (fan_sys_failed(mapped))
        return NULL;
    void *base = (void *)mapped;
    struct fan_fault fault;
    struct fan_index index;
    size_t room = sizeof(struct fan_dataset) + view->pack_count * sizeof(struct fan_pack_view);
    struct fan_dataset *dataset = fan_sys_memory(room);
    if (dataset == NULL || fan_index_attach(&index, base, bytes, &fault) != 0 ||
        index.pack_count != view->pack_count || index.record_count != view->record_count) {
        if (dataset != NULL)
            fan_sys_munmap(dataset, room);
        fan_sys_munmap(base, bytes);
        return NULL;
    }
    dataset->index = index;
    dataset->all_searchable = (index.header->flags & FAN_INDEX_ALL_SEARCHABLE) != 0;
    dataset->all_readable = (index.header->flags & FAN_INDEX_ALL_READABLE) != 0;
    dataset->has_originals = fan_index_is_planned(&index) && !fan_view_is_far(view);
    load_codecs(&index);
    fan_fault_init();

    struct fan_dataset *expected = NULL;
    if (!atomic_compare_exchange_strong(&view->dataset, &expected, dataset)) {
        fan_sys_munmap(dataset, room);
        fan_sys_munmap(base, bytes);
        return expected;
    }
    return dataset;
}
