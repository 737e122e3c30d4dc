#include "dirstream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "open.h"

#define STREAM_MAGIC UINT64_C(0xfa57fa57d15ea5e5)

struct fan_dirstream {
    uint64_t magic;
    struct fan_view *view;
    struct fan_dataset *dataset;
    uint64_t id;
    uint64_t first;
    uint64_t count;
    uint64_t position; /* 0 ".", 1 "..", then the children */
    int fd;            /* -1: not opened yet */
    struct dirent entry;
};

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "64-bit dirent");

static struct fan_dirstream *make(struct fan_view *view, struct fan_dataset *dataset, uint64_t id,
                                  int fd, int *error)
{
    uint64_t first, count;
    *error = fan_index_children(&dataset->index, id, &first, &count);
    struct fan_dirstream *stream = *error == 0 ? malloc(sizeof(*stream)) : NULL;
    if (stream == NULL) {
        *error = *error != 0 ? *error : -ENOMEM;
        return NULL;
    }
    stream->magic = STREAM_MAGIC;
    stream->view = view;
    stream->dataset = dataset;
    stream->id = id;
    stream->first = first;
    stream->count = count;
    stream->position = 0;
    stream->fd = fd;
    FAN_COUNT(directory_opens, 1);
    return stream;
}

struct fan_dirstream *fan_dirstream_open(const struct fan_target *target, int *error)
{
    if (target->where == FAN_MISSING)
        *error = -target->error;
    else if (!S_ISDIR(target->record->mode))
        *error = -ENOTDIR;
    else
        *error = fan_permitted(target->dataset, target->id, 4, true);
    return *error == 0 ? make(target->view, target->dataset, target->id, -1, error) : NULL;
}

struct fan_dirstream *fan_dirstream_open_fd(int fd, const struct fan_file *file, int *error)
{
    struct fan_dirstream *stream = make(file->view, file->dataset, file->id, fd, error);
    if (stream != NULL)
        stream->position = (uint64_t)atomic_load(&file->slot->offset);
    return stream;
}

struct fan_dirstream *fan_dirstream_of(DIR *dir)
{
    struct fan_dirstream *stream = (struct fan_dirstream *)(void *)dir;
    return stream != NULL && stream->magic == STREAM_MAGIC ? stream : NULL;
}

/* One entry of a directory, by position. */
struct listed {
    const char *name;
    size_t name_bytes;
    uint64_t inode;
    unsigned char type;
};

/* A hostile name must not lead a program that copies the tree out of its target. */
static int check_name(const struct listed *entry)
{
    bool dots = (entry->name_bytes == 1 || entry->name_bytes == 2) &&
                memcmp(entry->name, "..", entry->name_bytes) == 0;
    bool sane = entry->name_bytes > 0 && !dots &&
                memchr(entry->name, '/', entry->name_bytes) == NULL &&
                memchr(entry->name, '\0', entry->name_bytes) == NULL;
    return sane ? 0 : -EIO;
}

static int list(const struct fan_index *index, uint64_t id, uint64_t first, uint64_t position,
                struct listed *entry)
{
    const struct fan_record *here = &index->records[id];
    uint64_t child = position == 0 ? id : position == 1 ? here->parent : first + position - 2;
    const struct fan_record *record = fan_index_record(index, child);
    if (record == NULL)
        return -EIO;
    entry->inode = fan_index_inode(index, child);
    entry->type = IFTODT(record->mode);
    if (position < 2) {
        entry->name = "..";
        entry->name_bytes = position + 1;
        return 0;
    }
    int rc = fan_index_name(index, record, &entry->name, &entry->name_bytes);
    return rc != 0 ? rc : check_name(entry);
}

/* The length of a dirent with a name: up to and with its NUL, a multiple of 8. */
static unsigned short record_length(size_t name_bytes)
{
    return (unsigned short)((offsetof(struct dirent, d_name) + name_bytes + 1 + 7) / 8 * 8);
}

static void fill(struct dirent *to, const struct listed *entry, uint64_t position)
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
    *error = 0;
    if (stream->position >= stream->count + 2)
        return NULL;
    struct listed entry;
    *error = list(&stream->dataset->index, stream->id, stream->first, stream->position, &entry);
    if (*error != 0)
        return NULL;
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

int fan_dirstream_fd(struct fan_dirstream *stream)
{
    if (stream->fd < 0) {
        struct fan_target target;
        target.where = FAN_INPUT;
        target.view = stream->view;
        target.dataset = stream->dataset;
        target.id = stream->id;
        target.record = &stream->dataset->index.records[stream->id];
        stream->fd = fan_open(&target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return stream->fd;
}

int fan_dirstream_close(struct fan_dirstream *stream)
{
    int fd = stream->fd;
    stream->magic = 0;
    free(stream);
    return fd;
}

ssize_t fan_getdents(struct fan_file *file, void *buffer, size_t bytes)
{
    uint64_t first, count;
    const struct fan_index *index = &file->dataset->index;
    int rc = fan_index_children(index, file->id, &first, &count);
    if (rc != 0)
        return rc;
    uint64_t position = (uint64_t)atomic_load(&file->slot->offset);
    size_t done = 0;
    while (position < count + 2) {
        struct listed entry;
        rc = list(index, file->id, first, position, &entry);
        if (rc != 0)
            return rc;
        unsigned short length = record_length(entry.name_bytes);
        if (length > bytes - done) {
            if (done == 0)
                return -EINVAL;
            break;
        }
        fill((struct dirent *)((char *)buffer + done), &entry, position);
        done += length;
        position++;
    }
    atomic_store(&file->slot->offset, (int64_t)position);
    return (ssize_t)done;
}
