#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/names.h"

enum {
    WORD = 8,
    HEADER_UNITS = FAN_NAMES_HEADER_BYTES / FAN_NAMES_UNIT,
    ROOM_BYTES = 256 << 10, /* taken on the disk at a time */
    BUCKETS_FIRST = 1024,
    CLASSES = (sizeof(struct fan_name) + 2 * FAN_NAMES_PATH_MAX) / FAN_NAMES_UNIT + 2
};

/* free: for each number of units, the first free run of that many. It is chained by the words
 * `hash`, which no reader of a name that was removed meanwhile trusts. */
struct fan_names_writer {
    struct fan_names names;
    int fd;
    uint64_t used; /* units */
    uint64_t count;
    uint64_t generation;
    uint64_t free[CLASSES];
};

/* A path, and where its last component begins: its directory is what comes before. */
struct path {
    uint32_t mount;
    const char *text;
    uint32_t bytes;
};

static void store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void store_words(void *to, const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += WORD) {
        uint64_t word = 0;
        memcpy(&word, (const char *)from + at, bytes - at < WORD ? bytes - at : WORD);
        store((uint64_t *)to + at / WORD, word);
    }
}

static void set_flags(struct fan_name *name, uint32_t flags)
{
    __atomic_store_n(&name->flags, flags, __ATOMIC_RELEASE);
}

static size_t padded(size_t bytes)
{
    return (bytes + WORD - 1) / WORD * WORD;
}

/* Nothing that readers take while this is odd counts. */
static void turn(struct fan_names_writer *writer)
{
    struct fan_names_header *header = writer->names.header;
    store(&header->sequence, header->sequence + 1);
}

static void *at_unit(const struct fan_names_writer *writer, uint64_t unit)
{
    return unit == 0 ? NULL : (char *)writer->names.header + unit * FAN_NAMES_UNIT;
}

static struct fan_name *name_at(const struct fan_names_writer *writer, uint64_t unit)
{
    return at_unit(writer, unit);
}

static uint64_t unit_of(const struct fan_names_writer *writer, const void *at)
{
    return at == NULL
               ? 0
               : (uint64_t)((const char *)at - (const char *)writer->names.header) / FAN_NAMES_UNIT;
}

/* Units that were never used. 0: there is no room. */
static uint64_t fresh(struct fan_names_writer *writer, uint64_t units)
{
    struct fan_names_header *header = writer->names.header;
    uint64_t unit = writer->used, end = unit + units;
    if (end > writer->names.bytes / FAN_NAMES_UNIT)
        return 0;
    if (end > header->units) {
        uint64_t from = header->units * FAN_NAMES_UNIT;
        uint64_t to = (end * FAN_NAMES_UNIT + ROOM_BYTES - 1) / ROOM_BYTES * ROOM_BYTES;
        if (posix_fallocate(writer->fd, (off_t)from, (off_t)(to - from)) != 0)
            return 0;
        store(&header->units, to / FAN_NAMES_UNIT);
    }
    writer->used = end;
    return unit;
}

static uint64_t take(struct fan_names_writer *writer, size_t bytes)
{
    uint64_t units = (bytes + FAN_NAMES_UNIT - 1) / FAN_NAMES_UNIT;
    uint64_t unit = writer->free[units];
    if (unit == 0)
        return fresh(writer, units);
    writer->free[units] = name_at(writer, unit)->hash;
    return unit;
}

static size_t size_of(const struct fan_name *name)
{
    return sizeof(*name) + padded(name->path_bytes) + padded(name->target_bytes);
}

static void give(struct fan_names_writer *writer, struct fan_name *name)
{
    uint64_t units = (size_of(name) + FAN_NAMES_UNIT - 1) / FAN_NAMES_UNIT;
    store(&name->hash, writer->free[units]);
    writer->free[units] = unit_of(writer, name);
}

static uint64_t *bucket_of(const struct fan_names_writer *writer, uint64_t hash)
{
    const struct fan_names_header *header = writer->names.header;
    uint64_t *buckets = at_unit(writer, header->buckets);
    return &buckets[hash & (header->bucket_count - 1)];
}

/* Twice the buckets. The old ones are left: all that were ever left are fewer than these. */
static bool more_buckets(struct fan_names_writer *writer)
{
    struct fan_names_header *header = writer->names.header;
    uint64_t old_count = header->bucket_count;
    uint64_t count = old_count > 0 ? 2 * old_count : BUCKETS_FIRST;
    uint64_t *old = at_unit(writer, header->buckets);
    uint64_t unit = fresh(writer, count * WORD / FAN_NAMES_UNIT);
    if (unit == 0)
        return false;
    store(&header->buckets, unit);
    store(&header->bucket_count, count);
    for (uint64_t i = 0; i < old_count; i++) {
        struct fan_name *name = name_at(writer, old[i]);
        while (name != NULL) {
            struct fan_name *next = name_at(writer, name->next);
            uint64_t *bucket = bucket_of(writer, name->hash);
            store(&name->next, *bucket);
            store(bucket, unit_of(writer, name));
            name = next;
        }
    }
    return true;
}

static struct fan_name *find(const struct fan_names_writer *writer, const struct path *path)
{
    uint64_t hash = fan_names_hash(path->mount, path->text, path->bytes);
    struct fan_name *name = name_at(writer, *bucket_of(writer, hash));
    while (name != NULL &&
           (name->hash != hash || name->mount != path->mount || name->path_bytes != path->bytes ||
            memcmp(name + 1, path->text, path->bytes) != 0))
        name = name_at(writer, name->next);
    return name;
}

static struct fan_name *make(struct fan_names_writer *writer, const struct path *path,
                             const char *target, uint32_t target_bytes)
{
    uint64_t hash = fan_names_hash(path->mount, path->text, path->bytes);
    if (writer->count >= writer->names.header->bucket_count && !more_buckets(writer))
        return NULL;
    size_t path_room = padded(path->bytes);
    uint64_t unit = take(writer, sizeof(struct fan_name) + path_room + padded(target_bytes));
    if (unit == 0)
        return NULL;
    struct fan_name *name = name_at(writer, unit);
    uint64_t *bucket = bucket_of(writer, hash);
    struct fan_name head = {.hash = hash,
                            .next = *bucket,
                            .mount = path->mount,
                            .path_bytes = path->bytes,
                            .target_bytes = target_bytes};
    store_words(name, &head, sizeof(head));
    store_words(name + 1, path->text, path->bytes);
    store_words((char *)(name + 1) + path_room, target, target_bytes);
    store(bucket, unit);
    writer->count++;
    return name;
}

static void unmake(struct fan_names_writer *writer, struct fan_name *name)
{
    uint64_t *link = bucket_of(writer, name->hash), unit = unit_of(writer, name);
    while (*link != unit)
        link = &name_at(writer, *link)->next;
    store(link, name->next);
    writer->count--;
    give(writer, name);
}

static uint64_t listing_bytes(const struct fan_name *directory, const struct fan_name *name)
{
    uint32_t skipped = directory->path_bytes > 0 ? directory->path_bytes + 1 : 0;
    return fan_names_entry_bytes(name->path_bytes - skipped);
}

/* Counts what a child is in its directory, which has changed. */
static void account(struct fan_names_writer *writer, struct fan_name *directory,
                    const struct fan_name *name, int64_t by)
{
    if (name->flags & FAN_NAME_ENTRY)
        store(&directory->listing_bytes,
              directory->listing_bytes + (uint64_t)by * listing_bytes(directory, name));
    if (name->flags & FAN_NAME_ASK)
        store(&directory->asked, directory->asked + (uint64_t)by);
    store(&directory->generation, ++writer->generation);
}

static void join(struct fan_names_writer *writer, struct fan_name *directory, struct fan_name *name)
{
    struct fan_name *last = name_at(writer, directory->last);
    uint64_t unit = unit_of(writer, name);
    store(&name->parent, unit_of(writer, directory));
    store(&name->before, directory->last);
    store(&name->after, 0);
    store(last != NULL ? &last->after : &directory->first, unit);
    store(&directory->last, unit);
    store(&directory->children, directory->children + 1);
}

static void part(struct fan_names_writer *writer, struct fan_name *directory, struct fan_name *name)
{
    struct fan_name *before = name_at(writer, name->before), *after = name_at(writer, name->after);
    store(before != NULL ? &before->after : &directory->first, name->after);
    store(after != NULL ? &after->before : &directory->last, name->before);
    store(&directory->children, directory->children - 1);
    store(&name->parent, 0);
}

/* What a name in a directory is from now on; it goes when that is nothing. */
static void show(struct fan_names_writer *writer, struct fan_name *directory, struct fan_name *name,
                 uint32_t flags)
{
    const uint32_t shown = FAN_NAME_ENTRY | FAN_NAME_ASK;
    account(writer, directory, name, -1);
    if (name->parent == 0 && (flags & shown))
        join(writer, directory, name);
    else if (name->parent != 0 && !(flags & shown))
        part(writer, directory, name);
    set_flags(name, (name->flags & ~shown) | flags);
    account(writer, directory, name, 1);
    if (name->flags == 0)
        unmake(writer, name);
}

static void uncover(struct fan_names_writer *writer, struct fan_name *directory)
{
    while (directory->first != 0)
        show(writer, directory, name_at(writer, directory->first), 0);
    set_flags(directory, directory->flags & ~FAN_NAME_COVERED);
    if (directory->flags == 0)
        unmake(writer, directory);
}

static struct path parent_of(const struct path *path)
{
    uint32_t end = path->bytes;
    while (end > 0 && path->text[end - 1] != '/')
        end--;
    return (struct path){path->mount, path->text, end > 0 ? end - 1 : 0};
}

/* A name with room for a target; what was there for another one goes. */
static struct fan_name *name_for(struct fan_names_writer *writer, struct fan_name *directory,
                                 const struct path *path, const char *target, uint32_t target_bytes)
{
    struct fan_name *name = find(writer, path);
    if (name != NULL && padded(name->target_bytes) != padded(target_bytes)) {
        if (name->flags & FAN_NAME_COVERED)
            uncover(writer, name);
        name = find(writer, path);
        if (name != NULL)
            show(writer, directory, name, 0);
        name = NULL;
    }
    if (name == NULL)
        return make(writer, path, target, target_bytes);
    store_words((char *)(name + 1) + padded(name->path_bytes), target, target_bytes);
    __atomic_store_n(&name->target_bytes, target_bytes, __ATOMIC_RELEASE);
    return name;
}

static int put(struct fan_names_writer *writer, struct fan_name *directory, const struct path *path,
               const struct fan_output_attr *attr, const char *target, uint32_t target_bytes,
               bool ask)
{
    uint32_t flags = (attr != NULL ? FAN_NAME_ENTRY : 0u) | (ask ? FAN_NAME_ASK : 0u);
    struct fan_name *name =
        flags != 0 ? name_for(writer, directory, path, target, target_bytes) : find(writer, path);
    if (flags != 0 && name == NULL) {
        uncover(writer, directory);
        return -ENOSPC;
    }
    if (name == NULL)
        return 0;
    if (attr != NULL)
        store_words(&name->attr, attr, sizeof(*attr));
    show(writer, directory, name, flags);
    return 0;
}

int fan_names_put(struct fan_names_writer *writer, uint32_t mount, const char *path,
                  uint32_t path_bytes, const struct fan_output_attr *attr, const char *target,
                  uint32_t target_bytes, bool ask, int64_t changed_ns)
{
    struct path at = {mount, path, path_bytes}, above = parent_of(&at);
    struct fan_name *directory = find(writer, &above);
    if (directory == NULL || !(directory->flags & FAN_NAME_COVERED))
        return 0;
    turn(writer);
    store((uint64_t *)&directory->changed_ns, (uint64_t)changed_ns);
    int rc = put(writer, directory, &at, attr, target, target_bytes, ask);
    turn(writer);
    return rc;
}

void fan_names_changed(struct fan_names_writer *writer, uint32_t mount, const char *path,
                       uint32_t path_bytes, int64_t changed_ns)
{
    struct path at = {mount, path, path_bytes};
    struct fan_name *directory = find(writer, &at);
    if (directory == NULL)
        return;
    turn(writer);
    store((uint64_t *)&directory->changed_ns, (uint64_t)changed_ns);
    turn(writer);
}

int fan_names_cover(struct fan_names_writer *writer, uint32_t mount, const char *path,
                    uint32_t path_bytes)
{
    struct path at = {mount, path, path_bytes};
    struct fan_name *directory = find(writer, &at);
    if (directory != NULL && (directory->flags & FAN_NAME_COVERED))
        return 0;
    turn(writer);
    if (directory == NULL)
        directory = make(writer, &at, "", 0);
    if (directory != NULL) {
        store((uint64_t *)&directory->changed_ns, 0);
        set_flags(directory, directory->flags | FAN_NAME_COVERED);
    }
    turn(writer);
    return directory != NULL ? 0 : -ENOSPC;
}

void fan_names_uncover(struct fan_names_writer *writer, uint32_t mount, const char *path,
                       uint32_t path_bytes)
{
    struct path at = {mount, path, path_bytes};
    struct fan_name *directory = find(writer, &at);
    if (directory == NULL || !(directory->flags & FAN_NAME_COVERED))
        return;
    turn(writer);
    uncover(writer, directory);
    turn(writer);
}

void fan_names_freeze(struct fan_names_writer *writer, bool frozen)
{
    turn(writer);
    store(&writer->names.header->frozen, frozen);
    turn(writer);
}

void fan_names_done(struct fan_names_writer *writer)
{
    struct fan_names_header *header = writer->names.header;
    store(&header->done, header->done + 1);
}

uint64_t fan_names_announced(const struct fan_names_writer *writer)
{
    return __atomic_load_n(&writer->names.header->begun, __ATOMIC_SEQ_CST);
}

void fan_names_settle(struct fan_names_writer *writer, uint64_t announced)
{
    struct fan_names_header *header = writer->names.header;
    if (announced > header->done)
        store(&header->done, announced);
}

bool fan_names_under_way(const struct fan_names_writer *writer)
{
    return fan_names_announced(writer) != writer->names.header->done;
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
    rc = rc == 0 ? -posix_fallocate(writer->fd, 0, ROOM_BYTES) : rc;
    if (rc != 0)
        return rc;
    void *at =
        mmap(NULL, most_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, writer->fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    writer->names = (struct fan_names){at, most_bytes};
    writer->names.header->units = ROOM_BYTES / FAN_NAMES_UNIT;
    return 0;
}

int fan_names_open(int fd, uint32_t rank, uint64_t most_bytes, struct fan_names_writer **made)
{
    struct fan_names_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        close(fd);
        return -ENOMEM;
    }
    writer->fd = fd;
    writer->used = HEADER_UNITS;
    int rc = map(writer, most_bytes);
    if (rc == 0) {
        writer->names.header->rank = rank;
        writer->names.header->segment_bytes = most_bytes;
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
    pthread_mutex_unlock(&writer->names.header->owner);
    munmap(writer->names.header, writer->names.bytes);
    close(writer->fd);
    free(writer);
}
