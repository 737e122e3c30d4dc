#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "own.h"

enum {
    WORD = 8,
    ROOM_BYTES = 1 << 20, /* taken on the disk at a time */
    BUCKETS_FIRST = 1024
};

/* Takes room on the disk for so many more units. */
static bool reserve(struct fan_names_writer *writer, uint64_t units)
{
    struct fan_names_header *header = writer->names.header;
    uint64_t from = header->units * FAN_NAMES_UNIT;
    uint64_t to = (header->used + units) * FAN_NAMES_UNIT;
    if (to <= from)
        return true;
    to = (to + ROOM_BYTES - 1) / ROOM_BYTES * ROOM_BYTES;
    to = to < writer->names.bytes ? to : writer->names.bytes / FAN_NAMES_UNIT * FAN_NAMES_UNIT;
    if (header->used + units > to / FAN_NAMES_UNIT ||
        posix_fallocate(writer->fd, (off_t)from, (off_t)(to - from)) != 0)
        return false;
    fan_table_store(&header->units, to / FAN_NAMES_UNIT);
    return true;
}

/* Twice the buckets. The old ones are left: all that were ever left are fewer than these. */
static bool more_buckets(struct fan_names_writer *writer)
{
    uint64_t count = writer->names.header->bucket_count;
    count = count > 0 ? 2 * count : BUCKETS_FIRST;
    return reserve(writer, count * WORD / FAN_NAMES_UNIT) && fan_table_grow(&writer->names, count);
}

/* NULL: there is no such name, or the segment is out of use. */
static struct fan_name *find(struct fan_names_writer *writer, const struct fan_table_path *path)
{
    return writer->broken ? NULL : fan_table_find(&writer->names, path);
}

void fan_names_make_room(struct fan_names_writer *writer, uint32_t path_bytes,
                         uint32_t target_bytes, uint64_t spare)
{
    const struct fan_names_header *header = writer->names.header;
    if (4 * header->count >= 3 * header->bucket_count)
        more_buckets(writer); /* else chains get longer */
    uint64_t lacks = fan_table_lacks(&writer->names, path_bytes, target_bytes);
    if (lacks > 0 || header->units - header->used < spare)
        reserve(writer, lacks + spare);
}

int fan_names_put(struct fan_names_writer *writer, uint32_t mount, const char *path,
                  uint32_t path_bytes, const struct fan_output_attr *attr, const char *target,
                  uint32_t target_bytes, bool ask, int64_t changed_ns)
{
    struct fan_table_path at = {mount, path, path_bytes}, above = fan_table_parent(&at);
    struct fan_table_value value = {attr, target, target_bytes, ask};
    struct fan_name *directory = find(writer, &above);
    if (directory == NULL || !(directory->flags & FAN_NAME_COVERED))
        return 0;
    fan_table_turn(&writer->names);
    fan_table_store((uint64_t *)&directory->changed_ns, (uint64_t)changed_ns);
    struct fan_name *name = find(writer, &at);
    if (name != NULL)
        fan_table_detach(&writer->names, name);
    fan_names_make_room(writer, path_bytes, target_bytes, 0);
    int rc = fan_table_put(&writer->names, directory, &at, &value);
    fan_table_turn(&writer->names);
    return rc;
}

void fan_names_changed(struct fan_names_writer *writer, uint32_t mount, const char *path,
                       uint32_t path_bytes, int64_t changed_ns)
{
    struct fan_table_path at = {mount, path, path_bytes};
    struct fan_name *directory = find(writer, &at);
    if (directory == NULL)
        return;
    fan_table_turn(&writer->names);
    fan_table_store((uint64_t *)&directory->changed_ns, (uint64_t)changed_ns);
    fan_table_turn(&writer->names);
}

int fan_names_cover(struct fan_names_writer *writer, uint32_t mount, const char *path,
                    uint32_t path_bytes)
{
    struct fan_table_path at = {mount, path, path_bytes};
    struct fan_name *directory = find(writer, &at);
    if (directory != NULL && (directory->flags & FAN_NAME_COVERED))
        return 0;
    if (writer->broken)
        return -ENOSPC;
    fan_table_turn(&writer->names);
    fan_names_make_room(writer, path_bytes, 0, 0);
    directory = fan_table_cover(&writer->names, &at);
    fan_table_turn(&writer->names);
    return directory != NULL ? 0 : -ENOSPC;
}

void fan_names_uncover(struct fan_names_writer *writer, uint32_t mount, const char *path,
                       uint32_t path_bytes)
{
    struct fan_table_path at = {mount, path, path_bytes};
    struct fan_name *directory = find(writer, &at);
    if (directory == NULL || !(directory->flags & FAN_NAME_COVERED))
        return;
    fan_table_turn(&writer->names);
    fan_table_uncover(&writer->names, directory);
    fan_table_turn(&writer->names);
}

void fan_names_freeze(struct fan_names_writer *writer, bool frozen)
{
    fan_table_turn(&writer->names);
    fan_table_store(&writer->names.header->frozen, frozen);
    fan_table_turn(&writer->names);
}

void fan_names_done(struct fan_names_writer *writer)
{
    struct fan_names_header *header = writer->names.header;
    fan_table_store(&header->done, header->done + 1);
}

uint64_t fan_names_announced(const struct fan_names_writer *writer)
{
    return __atomic_load_n(&writer->names.header->begun, __ATOMIC_SEQ_CST);
}

void fan_names_settle(struct fan_names_writer *writer, uint64_t announced)
{
    struct fan_names_header *header = writer->names.header;
    if (announced > header->done)
        fan_table_store(&header->done, announced);
}

/* Process ids mean something to those alone who have the same. */
static uint64_t pid_space(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* The kernel notes it when this thread ends without having let go. */
static int own(struct fan_names_header *header)
{
    pthread_mutexattr_t how;
    int rc = pthread_mutexattr_init(&how);
    if (rc != 0)
        return -rc;
    rc = pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    rc = rc == 0 ? pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED) : rc;
    rc = rc == 0 ? pthread_mutex_init(&header->owner, &how) : rc;
    pthread_mutexattr_destroy(&how);
    return rc == 0 ? -pthread_mutex_lock(&header->owner) : -rc;
}

/* Maps the file, with room for the header and the first names. */
static int map(struct fan_names_writer *writer, uint64_t most_bytes)
{
    int rc = ftruncate(writer->fd, (off_t)most_bytes) == 0 ? 0 : -errno;
    rc = rc == 0 ? -posix_fallocate(writer->fd, 0, FAN_NAMES_FIRST_UNIT * FAN_NAMES_UNIT) : rc;
    if (rc != 0)
        return rc;
    void *at =
        mmap(NULL, most_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, writer->fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    writer->names = (struct fan_names){at, most_bytes};
    writer->names.header->used = writer->names.header->units = FAN_NAMES_FIRST_UNIT;
    return 0;
}

int fan_names_open(int fd, uint32_t rank, uint32_t world_size, uint64_t most_bytes,
                   struct fan_names_writer **made)
{
    struct fan_names_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        close(fd);
        return -ENOMEM;
    }
    writer->fd = fd;
    int rc = map(writer, most_bytes);
    if (rc == 0) {
        writer->names.header->rank = rank;
        writer->names.header->world_size = world_size;
        writer->names.header->segment_bytes = most_bytes;
        writer->names.header->closed = FAN_NAMES_NEVER;
        writer->names.header->awake = 1;
        writer->names.header->pid_space = pid_space();
        rc = more_buckets(writer) ? own(writer->names.header) : -ENOSPC;
        if (rc != 0)
            munmap(writer->names.header, most_bytes);
    }
    if (rc != 0) {
        close(fd);
        free(writer);
        return rc;
    }
    __atomic_store_n(&writer->names.header->magic, FAN_NAMES_MAGIC, __ATOMIC_RELEASE);
    *made = writer;
    return 0;
}

void fan_names_close(struct fan_names_writer *writer)
{
    if (!writer->broken)
        pthread_mutex_unlock(&writer->names.header->owner);
    munmap(writer->names.header, writer->names.bytes);
    close(writer->fd);
    free(writer);
}
