#include "dirstream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../machine/copy.h"
#include "entries.h"
#include "open.h"

#define STREAM_MAGIC UINT64_C(0xfa57fa57d15ea5e5)

struct fan_dirstream {
    uint64_t magic;
    struct fan_view *view;
    struct fan_dataset *dataset; /* NULL: a directory of outputs, at `path` */
    uint64_t id;
    uint64_t position; /* 0: ".", 1: "..", then the children */
    int fd;            /* -1: not opened yet */
    struct fan_entries entries;
    struct dirent entry;
    char path[];
};

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "64-bit dirent");

/* The directory of a stream. dataset: NULL for a directory of outputs. path: only of a directory of
 * outputs. id: a record, or the inode number of a directory of outputs. */
struct place {
    struct fan_view *view;
    struct fan_dataset *dataset;
    uint64_t id;
    const char *path;
};

static int list(const struct place *place, struct fan_entries *entries)
{
    return place->dataset != NULL
               ? fan_entries_of_input(entries, place->view, place->dataset, place->id)
               : fan_entries_of_output(entries, place->view, place->path, place->id);
}

static struct fan_dirstream *make(const struct place *place, int fd, int *error)
{
    size_t bytes = place->path != NULL ? strlen(place->path) + 1 : 0;
    struct fan_dirstream *stream = malloc(sizeof(*stream) + bytes);
    *error = stream == NULL ? -ENOMEM : (int)fan_count_error(list(place, &stream->entries));
    if (*error != 0) {
        free(stream);
        return NULL;
    }
    stream->magic = STREAM_MAGIC;
    stream->view = place->view;
    stream->dataset = place->dataset;
    stream->id = place->id;
    stream->position = 0;
    stream->fd = fd;
    if (bytes > 0)
        memcpy(stream->path, place->path, bytes);
    FAN_COUNT(directory_opens, 1);
    return stream;
}

struct fan_dirstream *fan_dirstream_open(const struct fan_target *target, int *error)
{
    bool output = target->where == FAN_OUTPUT;
    struct place place = {target->view, output ? NULL : target->dataset,
                          output ? target->attr.ino : target->id, output ? target->path : NULL};
    *error = fan_directory_permitted(target, R_OK);
    return *error == 0 ? make(&place, -1, error) : NULL;
}

/* Returns the path in the mount of an open directory of outputs. */
static int path_of(int fd, struct fan_target_room *room)
{
    if (room == NULL)
        return -ENOMEM;
    if (!fan_locate(fd, "", FAN_EMPTY_PATH, &room->target) || room->target.where != FAN_OUTPUT)
        return -ENOENT;
    memcpy(room->path, room->target.path, strlen(room->target.path) + 1);
    return 0;
}

struct fan_dirstream *fan_dirstream_open_fd(int fd, const struct fan_file *file, int *error)
{
    FAN_OFF_STACK(struct fan_target_room, room);
    bool output = file->kind == FAN_FILE_OUTDIR;
    *error = output ? path_of(fd, room) : 0;
    struct place place = {file->view, output ? NULL : file->dataset, file->id, NULL};
    if (output && *error == 0) {
        place.id = room->target.attr.ino;
        place.path = room->path;
    }
    struct fan_dirstream *stream = *error == 0 ? make(&place, fd, error) : NULL;
    if (stream != NULL)
        stream->position = (uint64_t)atomic_load(&file->slot->offset);
    return stream;
}

struct fan_dirstream *fan_dirstream_of(DIR *dir)
{
    struct fan_dirstream *stream = (struct fan_dirstream *)(void *)dir;
    return stream != NULL && stream->magic == STREAM_MAGIC ? stream : NULL;
}

/* Returns the size of a dirent with a name of this length, which includes its NUL and is rounded up
 * to a multiple of 8. */
static unsigned short record_length(size_t name_bytes)
{
    return (unsigned short)((offsetof(struct dirent, d_name) + name_bytes + 1 + 7) / 8 * 8);
}

static void fill(struct dirent *to, const struct fan_entry *entry, uint64_t position)
{
    to->d_ino = entry->inode;
    to->d_off = (off_t)position + 1;
    to->d_reclen = record_length(entry->name_bytes);
    to->d_type = entry->type;
    memcpy(to->d_name, entry->name, entry->name_bytes);
    to->d_name[entry->name_bytes] = '\0';
}

struct dirent *fan_dirstream_read(struct fan_dirstream *stream, int *error)
{
    struct fan_entry entry;
    *error = fan_entries_at(&stream->entries, stream->position, &entry);
    if (*error != 0) {
        *error = *error == -ENOENT ? 0 : *error;
        return NULL;
    }
    fill(&stream->entry, &entry, stream->position);
    stream->position++;
    return &stream->entry;
}

long fan_dirstream_tell(const struct fan_dirstream *stream)
{
    return (long)stream->position;
}

void fan_dirstream_seek(struct fan_dirstream *stream, long position)
{
    stream->position = position >= 0 ? (uint64_t)position : 0;
}

void fan_dirstream_rewind(struct fan_dirstream *stream)
{
    struct place place = {stream->view, stream->dataset, stream->id,
                          stream->dataset == NULL ? stream->path : NULL};
    struct fan_entries now;
    stream->position = 0;
    if (list(&place, &now) != 0)
        return;
    fan_entries_end(&stream->entries);
    stream->entries = now;
}

int fan_dirstream_fd(struct fan_dirstream *stream)
{
    if (stream->fd < 0) {
        struct fan_target target = {.where = FAN_INPUT, .view = stream->view};
        target.dataset = stream->dataset;
        if (stream->dataset != NULL) {
            target.id = stream->id;
            target.record = &stream->dataset->index.records[stream->id];
            target.mode = target.record->mode;
        } else {
            target.where = FAN_BEYOND;
            target.path = stream->path;
        }
        stream->fd = fan_open(&target, O_RDONLY | O_NONBLOCK | O_DIRECTORY | O_CLOEXEC, 0);
    }
    return stream->fd;
}

int fan_dirstream_close(struct fan_dirstream *stream)
{
    int fd = stream->fd;
    fan_entries_end(&stream->entries);
    stream->magic = 0;
    free(stream);
    return fd;
}

static int list_outputs(int fd, const struct fan_file *file, struct fan_entries *entries)
{
    FAN_OFF_STACK(struct fan_target_room, room);
    int rc = path_of(fd, room);
    return rc == 0 ? fan_entries_of_output(entries, file->view, room->path, room->target.attr.ino)
                   : rc;
}

static int list_file(int fd, const struct fan_file *file, struct fan_entries *entries)
{
    return file->kind == FAN_FILE_DIRECTORY
               ? fan_entries_of_input(entries, file->view, file->dataset, file->id)
               : list_outputs(fd, file, entries);
}

/* Returns the snapshot of the entries, which a descriptor keeps from its beginning to its end, so
 * that a name that is made or removed meanwhile neither hides nor repeats another. Returns NULL if
 * there is no memory. The caller holds decoded.busy. */
static struct fan_entries *snapshot(int fd, struct fan_file *file, bool again, int *error)
{
    *error = 0;
    if (file->entries != NULL && !again)
        return file->entries;
    fan_file_drop_entries(file);
    struct fan_entries *entries = fan_sys_memory(sizeof(*entries));
    *error = entries == NULL ? -ENOMEM : list_file(fd, file, entries);
    if (*error == 0)
        file->entries = entries;
    else if (entries != NULL)
        fan_sys_munmap(entries, sizeof(*entries));
    return file->entries;
}

void fan_getdents_end(struct fan_entries *entries)
{
    fan_entries_end(entries);
    fan_sys_munmap(entries, sizeof(*entries));
}

static ssize_t put_entries(struct fan_file *file, struct fan_entries *entries, char *buffer,
                           size_t bytes)
{
    uint64_t position = (uint64_t)atomic_load(&file->slot->offset);
    size_t done = 0;
    struct fan_entry entry;
    struct dirent record;
    int rc;
    while ((rc = fan_entries_at(entries, position, &entry)) == 0) {
        unsigned short length = record_length(entry.name_bytes);
        if (length > bytes - done) {
            if (done == 0)
                return -EINVAL;
            break;
        }
        fill(&record, &entry, position);
        if ((rc = fan_copy(buffer + done, &record, length)) != 0)
            break;
        done += length;
        position++;
    }
    if (rc != 0 && rc != -ENOENT && done == 0)
        return rc;
    atomic_store(&file->slot->offset, (int64_t)position);
    return (ssize_t)done;
}

ssize_t fan_getdents(int fd, struct fan_file *file, void *buffer, size_t bytes)
{
    struct fan_entries own, *entries = &own;
    bool plain = file->kind == FAN_FILE_DIRECTORY && !fan_view_touched(file->view, file->id);
    bool kept = !plain && !atomic_flag_test_and_set(&file->decoded.busy);
    int rc;
    if (kept)
        entries = snapshot(fd, file, atomic_load(&file->slot->offset) == 0, &rc);
    else
        rc = list_file(fd, file, entries);
    ssize_t done = rc == 0 ? put_entries(file, entries, buffer, bytes) : rc;
    if (kept)
        atomic_flag_clear(&file->decoded.busy);
    else if (rc == 0)
        fan_entries_end(entries);
    return done;
}
