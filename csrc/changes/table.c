#include "table.h"

#include <errno.h>
#include <string.h>

enum { WORD = 8 };

static void store_words(void *to, const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += WORD) {
        uint64_t word = 0;
        memcpy(&word, (const char *)from + at, bytes - at < WORD ? bytes - at : WORD);
        fan_table_store((uint64_t *)to + at / WORD, word);
    }
}

void fan_table_set_flags(struct fan_name *name, uint32_t flags)
{
    __atomic_store_n(&name->flags, flags, __ATOMIC_RELEASE);
}

/* Anything that lies there. */
static void *at_unit(const struct fan_names *names, uint64_t unit)
{
    return unit == 0 ? NULL : (char *)names->header + unit * FAN_NAMES_UNIT;
}

struct fan_name *fan_table_at(const struct fan_names *names, uint64_t unit)
{
    return at_unit(names, unit);
}

uint64_t fan_table_unit(const struct fan_names *names, const void *at)
{
    return at == NULL ? 0
                      : (uint64_t)((const char *)at - (const char *)names->header) / FAN_NAMES_UNIT;
}

uint64_t fan_table_fresh(const struct fan_names *names, uint64_t units)
{
    struct fan_names_header *header = names->header;
    uint64_t unit = header->used;
    if (units > header->units - unit)
        return 0;
    header->used = unit + units;
    return unit;
}

static uint64_t units_for(size_t path_bytes, size_t target_bytes)
{
    size_t bytes =
        sizeof(struct fan_name) + fan_table_padded(path_bytes) + fan_table_padded(target_bytes);
    return (bytes + FAN_NAMES_UNIT - 1) / FAN_NAMES_UNIT;
}

uint64_t fan_table_lacks(const struct fan_names *names, uint32_t path_bytes, uint32_t target_bytes)
{
    const struct fan_names_header *header = names->header;
    uint64_t units = units_for(path_bytes, target_bytes);
    bool room = units < FAN_NAMES_CLASSES &&
                (header->free[units] != 0 || units <= header->units - header->used);
    return room ? 0 : units;
}

/* 0: there is no room, or the path is longer than any that readers take: directories that are moved
 * below others make such paths. */
static uint64_t take(const struct fan_names *names, uint64_t units)
{
    if (units >= FAN_NAMES_CLASSES)
        return 0;
    uint64_t unit = names->header->free[units];
    if (unit == 0)
        return fan_table_fresh(names, units);
    names->header->free[units] = fan_table_at(names, unit)->hash;
    return unit;
}

static void give(const struct fan_names *names, struct fan_name *name)
{
    uint64_t units = units_for(name->path_bytes, name->target_bytes);
    fan_table_store(&name->hash, names->header->free[units]);
    names->header->free[units] = fan_table_unit(names, name);
}

static uint64_t *bucket_of(const struct fan_names *names, uint64_t hash)
{
    const struct fan_names_header *header = names->header;
    uint64_t *buckets = at_unit(names, header->buckets);
    return &buckets[hash & (header->bucket_count - 1)];
}

bool fan_table_grow(const struct fan_names *names, uint64_t count)
{
    struct fan_names_header *header = names->header;
    uint64_t old_count = header->bucket_count;
    uint64_t *old = at_unit(names, header->buckets);
    uint64_t unit = fan_table_fresh(names, count * WORD / FAN_NAMES_UNIT);
    if (unit == 0)
        return false;
    fan_table_store(&header->buckets, unit);
    fan_table_store(&header->bucket_count, count);
    for (uint64_t i = 0; i < old_count; i++) {
        struct fan_name *name = fan_table_at(names, old[i]);
        while (name != NULL) {
            struct fan_name *next = fan_table_at(names, name->next);
            uint64_t *bucket = bucket_of(names, name->hash);
            fan_table_store(&name->next, *bucket);
            fan_table_store(bucket, fan_table_unit(names, name));
            name = next;
        }
    }
    return true;
}

struct fan_name *fan_table_find(const struct fan_names *names, const struct fan_table_path *path)
{
    uint64_t hash = fan_names_hash(path->mount, path->text, path->bytes);
    struct fan_name *name = fan_table_at(names, *bucket_of(names, hash));
    while (name != NULL &&
           (name->hash != hash || name->mount != path->mount || name->path_bytes != path->bytes ||
            memcmp(name + 1, path->text, path->bytes) != 0))
        name = fan_table_at(names, name->next);
    return name;
}

static struct fan_name *make(const struct fan_names *names, const struct fan_table_path *path,
                             const char *target, uint32_t target_bytes)
{
    uint64_t hash = fan_names_hash(path->mount, path->text, path->bytes);
    size_t path_room = fan_table_padded(path->bytes);
    uint64_t unit = take(names, units_for(path->bytes, target_bytes));
    if (unit == 0)
        return NULL;
    struct fan_name *name = fan_table_at(names, unit);
    uint64_t *bucket = bucket_of(names, hash);
    struct fan_name head = {.hash = hash,
                            .next = *bucket,
                            .mount = path->mount,
                            .path_bytes = path->bytes,
                            .target_bytes = target_bytes};
    store_words(name, &head, sizeof(head));
    store_words(name + 1, path->text, path->bytes);
    store_words((char *)(name + 1) + path_room, target, target_bytes);
    fan_table_store(bucket, unit);
    names->header->count++;
    return name;
}

static void unmake(const struct fan_names *names, struct fan_name *name)
{
    uint64_t *link = bucket_of(names, name->hash), unit = fan_table_unit(names, name);
    while (*link != unit)
        link = &fan_table_at(names, *link)->next;
    fan_table_store(link, name->next);
    names->header->count--;
    give(names, name);
}

static uint64_t listing_bytes(const struct fan_name *directory, const struct fan_name *name)
{
    uint32_t skipped = directory->path_bytes > 0 ? directory->path_bytes + 1 : 0;
    return fan_names_entry_bytes(name->path_bytes - skipped);
}

/* Counts what a child is in its directory, which has changed. */
static void account(const struct fan_names *names, struct fan_name *directory,
                    const struct fan_name *name, int64_t by)
{
    if (name->flags & FAN_NAME_ENTRY)
        fan_table_store(&directory->listing_bytes,
                        directory->listing_bytes + (uint64_t)by * listing_bytes(directory, name));
    if (name->flags & FAN_NAME_ASK)
        fan_table_store(&directory->asked, directory->asked + (uint64_t)by);
    fan_table_store(&directory->generation, ++names->header->generation);
}

static void join(const struct fan_names *names, struct fan_name *directory, struct fan_name *name)
{
    struct fan_name *last = fan_table_at(names, directory->last);
    uint64_t unit = fan_table_unit(names, name);
    fan_table_store(&name->parent, fan_table_unit(names, directory));
    fan_table_store(&name->before, directory->last);
    fan_table_store(&name->after, 0);
    fan_table_store(last != NULL ? &last->after : &directory->first, unit);
    fan_table_store(&directory->last, unit);
    fan_table_store(&directory->children, directory->children + 1);
}

static void part(const struct fan_names *names, struct fan_name *directory, struct fan_name *name)
{
    struct fan_name *before = fan_table_at(names, name->before),
                    *after = fan_table_at(names, name->after);
    fan_table_store(before != NULL ? &before->after : &directory->first, name->after);
    fan_table_store(after != NULL ? &after->before : &directory->last, name->before);
    fan_table_store(&directory->children, directory->children - 1);
    fan_table_store(&name->parent, 0);
}

void fan_table_detach(const struct fan_names *names, const struct fan_name *name)
{
    struct fan_names_draft *draft = &names->header->drafts[name->attr.object % FAN_NAMES_DRAFTS];
    if (draft->object != 0 && draft->unit == fan_table_unit(names, name))
        draft->object = 0;
}

/* What a name in a directory is from now on; it goes when that is nothing. */
static void show(const struct fan_names *names, struct fan_name *directory, struct fan_name *name,
                 uint32_t flags)
{
    const uint32_t shown = FAN_NAME_ENTRY | FAN_NAME_ASK;
    account(names, directory, name, -1);
    if ((name->flags & ~flags) & FAN_NAME_ASK)
        fan_table_detach(names, name);
    if (name->parent == 0 && (flags & shown))
        join(names, directory, name);
    else if (name->parent != 0 && !(flags & shown))
        part(names, directory, name);
    fan_table_set_flags(name, (name->flags & ~shown) | flags);
    account(names, directory, name, 1);
    if (name->flags == 0)
        unmake(names, name);
}

void fan_table_uncover(const struct fan_names *names, struct fan_name *directory)
{
    while (directory->first != 0)
        show(names, directory, fan_table_at(names, directory->first), 0);
    fan_table_set_flags(directory, directory->flags & ~(FAN_NAME_COVERED | FAN_NAME_OPEN));
    if (directory->flags == 0)
        unmake(names, directory);
}

struct fan_table_path fan_table_parent(const struct fan_table_path *path)
{
    uint32_t end = path->bytes;
    while (end > 0 && path->text[end - 1] != '/')
        end--;
    return (struct fan_table_path){path->mount, path->text, end > 0 ? end - 1 : 0};
}

/* A name with room for a target; what was there for another one goes. */
static struct fan_name *name_for(const struct fan_names *names, struct fan_name *directory,
                                 const struct fan_table_path *path, const char *target,
                                 uint32_t target_bytes)
{
    struct fan_name *name = fan_table_find(names, path);
    if (name != NULL && fan_table_padded(name->target_bytes) != fan_table_padded(target_bytes)) {
        if (name->flags & FAN_NAME_COVERED)
            fan_table_uncover(names, name);
        name = fan_table_find(names, path);
        if (name != NULL)
            show(names, directory, name, 0);
        name = NULL;
    }
    if (name == NULL)
        return make(names, path, target, target_bytes);
    store_words((char *)(name + 1) + fan_table_padded(name->path_bytes), target, target_bytes);
    __atomic_store_n(&name->target_bytes, target_bytes, __ATOMIC_RELEASE);
    return name;
}

int fan_table_put(const struct fan_names *names, struct fan_name *directory,
                  const struct fan_table_path *path, const struct fan_table_value *value)
{
    uint32_t flags = (value->attr != NULL ? FAN_NAME_ENTRY : 0u) | (value->ask ? FAN_NAME_ASK : 0u);
    struct fan_name *name =
        flags != 0 ? name_for(names, directory, path, value->target, value->target_bytes)
                   : fan_table_find(names, path);
    if (flags != 0 && name == NULL) {
        fan_table_uncover(names, directory);
        return -ENOSPC;
    }
    if (name == NULL)
        return 0;
    if (value->attr != NULL)
        store_words(&name->attr, value->attr, sizeof(*value->attr));
    show(names, directory, name, flags);
    return 0;
}

struct fan_name *fan_table_cover(const struct fan_names *names, const struct fan_table_path *path)
{
    struct fan_name *directory = fan_table_find(names, path);
    if (directory == NULL)
        directory = make(names, path, "", 0);
    if (directory != NULL) {
        fan_table_store((uint64_t *)&directory->changed_ns, 0);
        fan_table_set_flags(directory, directory->flags | FAN_NAME_COVERED);
    }
    return directory;
}
