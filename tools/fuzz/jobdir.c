#include "jobdir.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../csrc/client/handoff/handoff.h"
#include "../../csrc/client/job/job.h"
#include "../../csrc/format/pack_format.h"
#include "../../csrc/pack/codec.h"

static char top[PATH_MAX - 64];

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "jobdir: %s: %s\n", what, strerror(errno));
    abort();
}

static void path_in(const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", top, name);
}

static int create(const char *name)
{
    char path[PATH_MAX];
    path_in(name, path);
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    must(fd >= 0, path);
    return fd;
}

static void write_whole(const char *name, const void *data, size_t bytes)
{
    int fd = create(name);
    must(write(fd, data, bytes) == (ssize_t)bytes, name);
    close(fd);
}

/* Writes the stored bytes of one uncompressed file; the rest of the pack is a hole. */
static void write_content(int fd, const struct fan_record *record, uint64_t id)
{
    uint8_t data[8192];
    uint64_t size = record->logical_size;
    bool small = size <= sizeof(data), apart = record->offset >= JOBDIR_LARGE_OFFSET;
    if (!S_ISREG(record->mode) || record->codec != 0 || (!small && !apart))
        return;
    for (uint64_t at = 0; at < size; at += sizeof(data)) {
        size_t bytes = size - at < sizeof(data) ? size - at : sizeof(data);
        jobdir_fill(data, id, at, bytes);
        off_t offset = (off_t)(record->offset + at);
        must(pwrite(fd, data, bytes, offset) == (ssize_t)bytes, "pack");
    }
}

void jobdir_fill(uint8_t *to, uint64_t id, uint64_t offset, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = jobdir_byte(id, offset + i);
}

static void write_pack(const void *index, uint64_t pack_bytes)
{
    const struct fan_index_header *header = index;
    const struct fan_record *records =
        (const void *)((const char *)index + header->sections[FAN_SECTION_RECORDS].offset);
    int fd = create("pack-00000.fsp");
    for (uint64_t id = 0; id < header->record_count; id++)
        write_content(fd, &records[id], id);
    must(ftruncate(fd, (off_t)pack_bytes) == 0, "pack");
    close(fd);
}

/* Appends a string to the segment. Returns its offset and length. */
static struct fan_shm_string put(char *segment, uint64_t *used, const char *text)
{
    struct fan_shm_string string = {*used, strlen(text)};
    memcpy(segment + *used, text, string.bytes);
    *used += string.bytes;
    return string;
}

/* Offsets in the segment. */
enum { MOUNT = 256, PLACE = 512, TEXT = 1024 };
enum { BITMAP_BYTES = JOBDIR_RECORDS_MAX / 8 + 8, DAMAGE = TEXT + 4 * PATH_MAX };
enum { TOUCHED = DAMAGE + BITMAP_BYTES };
enum { TRACE = (TOUCHED + BITMAP_BYTES + 4095) & -4096, LANES = TRACE + 4096 };
enum { RINGS = LANES + JOBDIR_LANES * sizeof(struct fan_lane) };
enum { BYTES = RINGS + JOBDIR_LANES * FAN_RING_NOTES * sizeof(uint64_t) };

uint64_t jobdir_segment_bytes(void)
{
    return BYTES;
}

uint64_t jobdir_trace_offset(void)
{
    return TRACE;
}

static void write_segment(uint64_t record_count)
{
    static char segment[BYTES] __attribute__((aligned(64)));
    struct fan_job_header *header = (void *)segment;
    struct fan_mount *mount = (void *)(segment + MOUNT);
    struct fan_place *place = (void *)(segment + PLACE);
    uint64_t used = TEXT;
    char index_path[PATH_MAX];
    path_in("index.fsi", index_path);
    memcpy(header->magic, FAN_JOB_MAGIC, sizeof(header->magic));
    header->version = FAN_JOB_VERSION;
    header->layout_id = FAN_JOB_LAYOUT_ID;
    header->segment_bytes = BYTES;
    header->mounts_offset = MOUNT;
    header->trace_offset = TRACE;
    header->mount_count = 1;
    header->state = FAN_JOB_SERVING;
    mount->prefix = put(segment, &used, JOBDIR_PREFIX);
    mount->index_path = put(segment, &used, index_path);
    mount->staged_dir = put(segment, &used, top);
    mount->dataset_dir = mount->staged_dir;
    mount->places_offset = PLACE;
    mount->damage_offset = DAMAGE;
    mount->touched_offset = TOUCHED;
    mount->record_count = record_count;
    mount->pack_count = 1;
    place->state = FAN_PLACE_STAGED;
    *(struct fan_trace *)(void *)(segment + TRACE) =
        (struct fan_trace){.lanes_offset = LANES,
                           .rings_offset = RINGS,
                           .lane_count = JOBDIR_LANES,
                           .ring_notes = FAN_RING_NOTES};
    ((struct fan_lane *)(void *)(segment + LANES))->state = FAN_LANE_SHARED;
    write_whole("segment", segment, BYTES);
}

void jobdir_attach(const char *directory, const void *index, size_t index_bytes,
                   uint64_t pack_bytes)
{
    char placeholder[PATH_MAX];
    must(mkdir(directory, 0700) == 0 || errno == EEXIST, directory);
    must(realpath(directory, placeholder) != NULL && strlen(placeholder) < sizeof(top), directory);
    memcpy(top, placeholder, strlen(placeholder) + 1);
    path_in("placeholder", placeholder);
    unlink(placeholder);
    must(symlink("fanstore-virtual-file", placeholder) == 0, placeholder);
    write_whole("index.fsi", index, index_bytes);
    write_pack(index, pack_bytes);
    write_segment(((const struct fan_index_header *)index)->record_count);
    fan_codec_load_with(dlopen);
    must(fan_process_attach(top, NULL) == 0, "fan_process_attach");
}

static void forget_dataset(struct fan_view *view)
{
    struct fan_dataset *dataset = atomic_load(&view->dataset);
    if (dataset == NULL)
        return;
    const struct fan_index_header *header = dataset->index.header;
    const char *base = atomic_load(&dataset->packs[0].base);
    if (base != NULL)
        munmap((void *)base, dataset->index.packs[0].file_bytes);
    munmap((void *)header, header->file_bytes);
    munmap(dataset, sizeof(*dataset) + sizeof(dataset->packs[0]));
    atomic_store(&view->dataset, NULL);
}

void jobdir_replace_index(const void *index, size_t index_bytes)
{
    struct fan_view *view = &fan_job.views[0];
    forget_dataset(view);
    write_whole("index.fsi", index, index_bytes);
    uint64_t count = index_bytes >= FAN_INDEX_HEADER_BYTES
                         ? ((const struct fan_index_header *)index)->record_count
                         : 0;
    view->record_count = count <= JOBDIR_RECORDS_MAX ? count : 0;
}
