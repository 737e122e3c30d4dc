#include "names.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "path_hash.h"

enum { TRIES = 100, CHAIN_MAX = 1000, LIST_TRIES = 4, WORD = 8, OWNER_DIED = 0x40000000 };

/* Whatever may change meanwhile is read and written as whole words. */
static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void load_words(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / WORD; i++) {
        uint64_t word = load((const uint64_t *)from + i);
        memcpy((char *)to + i * WORD, &word, WORD);
    }
}

static size_t padded(size_t bytes)
{
    return (bytes + WORD - 1) / WORD * WORD;
}

uint64_t fan_names_hash(uint32_t mount, const char *path, size_t bytes)
{
    return fan_path_hash_step(FAN_PATH_HASH_ROOT ^ mount, path, bytes);
}

uint32_t fan_names_home(const struct fan_names *names, uint32_t mount, const char *directory,
                        size_t bytes)
{
    uint64_t world = load(&names->header->world_size);
    uint64_t value = UINT64_C(0xcbf29ce484222325) ^ mount;
    for (size_t i = 0; i < bytes; i++)
        value = (value ^ (unsigned char)directory[i]) * UINT64_C(0x100000001b3);
    return world > 0 ? (uint32_t)((value ^ value >> 32) % world) : 0;
}

int fan_names_attach(struct fan_names *names, void *base, uint64_t bytes)
{
    struct fan_names_header *header = base;
    if (bytes < FAN_NAMES_HEADER_BYTES ||
        __atomic_load_n(&header->magic, __ATOMIC_ACQUIRE) != FAN_NAMES_MAGIC ||
        header->segment_bytes != bytes)
        return -EINVAL;
    *names = (struct fan_names){header, bytes};
    return 0;
}

/* `count` bytes in the units from `unit` on; NULL where they leave the segment. */
static const void *units_at(const struct fan_names *names, uint64_t unit, uint64_t count)
{
    uint64_t most = names->bytes / FAN_NAMES_UNIT;
    bool inside =
        unit >= FAN_NAMES_FIRST_UNIT && unit < most && count <= (most - unit) * FAN_NAMES_UNIT;
    return inside ? (const char *)names->header + unit * FAN_NAMES_UNIT : NULL;
}

/* The kernel notes the end of a lock's owner. */
bool fan_names_kept(const struct fan_names *names)
{
    const int *word = (const int *)&names->header->owner;
    int owner = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    return owner != 0 && (owner & OWNER_DIED) == 0;
}

bool fan_names_settled(const struct fan_names *names)
{
    uint64_t done = load(&names->header->done);
    return load(&names->header->begun) == done && load(&names->header->frozen) == 0;
}

/* The name at `unit`. NULL where none can be: the segment is being changed. */
static const struct fan_name *name_at(const struct fan_names *names, uint64_t unit,
                                      struct fan_name *head)
{
    const struct fan_name *name = units_at(names, unit, sizeof(*name));
    if (name == NULL)
        return NULL;
    load_words(head, name, sizeof(*head));
    bool sane = head->path_bytes < FAN_NAMES_PATH_MAX && head->target_bytes < FAN_NAMES_PATH_MAX;
    uint64_t bytes = sizeof(*name) + padded(head->path_bytes) + padded(head->target_bytes);
    return sane && units_at(names, unit, bytes) != NULL ? name : NULL;
}

static bool same_text(const void *words, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += WORD) {
        uint64_t word = 0;
        memcpy(&word, text + at, bytes - at < WORD ? bytes - at : WORD);
        if (load((const uint64_t *)words + at / WORD) != word)
            return false;
    }
    return true;
}

enum found { UNSURE = -1, NOTHING, FOUND };

/* The name of the first `bytes` of a path. UNSURE: the segment is being changed, or many paths have
 * one hash. */
static enum found find(const struct fan_names *names, const struct fan_names_path *path,
                       size_t bytes, struct fan_name *head, const struct fan_name **name)
{
    uint64_t hash = fan_names_hash(path->mount, path->text, bytes);
    uint64_t count = load(&names->header->bucket_count);
    const uint64_t *buckets = count != 0 && (count & (count - 1)) == 0 && count < names->bytes
                                  ? units_at(names, load(&names->header->buckets), count * WORD)
                                  : NULL;
    if (buckets == NULL)
        return UNSURE;
    uint64_t unit = load(&buckets[hash & (count - 1)]);
    for (unsigned i = 0; unit != 0 && i < CHAIN_MAX; i++, unit = head->next) {
        *name = name_at(names, unit, head);
        if (*name == NULL)
            return UNSURE;
        if (head->hash == hash && head->mount == path->mount && head->path_bytes == bytes &&
            same_text(*name + 1, path->text, bytes))
            return FOUND;
    }
    return unit == 0 ? NOTHING : UNSURE;
}

/* Whether what a killed process was writing in the directory, which the daemon may not know to be
 * over yet, is going to have this name (fanstore/outputs/model/partial.py). */
static bool may_be_partial(const struct fan_name *directory, const struct fan_names_path *path)
{
    static const char partial[] = ".partial";
    return directory->asked > 0 &&
           memmem(path->text, path->bytes, partial, sizeof(partial) - 1) != NULL;
}

/* What it means for a path that this is above it: one that is covered is a directory, whoever has
 * its own name. 0: nothing yet. */
static int judge_above(const struct fan_name *head, bool base, const struct fan_names_path *path)
{
    if (head->flags & FAN_NAME_ASK)
        return FAN_NAMES_ASK;
    if (head->flags & FAN_NAME_COVERED)
        return may_be_partial(head, path) ? FAN_NAMES_ASK : -ENOENT;
    if (base || !(head->flags & FAN_NAME_ENTRY))
        return base ? FAN_NAMES_ASK : 0;
    return S_ISREG(head->attr.mode) ? -ENOTDIR : FAN_NAMES_ASK;
}

/* There is nothing under the path: because of what is, or is not, above it. */
static int judge_missing(const struct fan_names *names, const struct fan_names_path *path)
{
    size_t end = path->bytes;
    while (end > path->base_bytes) {
        struct fan_name head;
        const struct fan_name *name;
        do
            end--;
        while (end > path->base_bytes && path->text[end] != '/');
        bool base = end == path->base_bytes;
        enum found found = find(names, path, end, &head, &name);
        int rc = found == FOUND ? judge_above(&head, base, path) : base ? FAN_NAMES_ASK : 0;
        if (rc != 0 || found == UNSURE)
            return rc != 0 ? rc : FAN_NAMES_ASK;
    }
    return FAN_NAMES_ASK;
}

/* A directory's times are also those of its names. */
static void with_times(const struct fan_name *head, struct fan_output_attr *attr)
{
    *attr = head->attr;
    if (head->changed_ns == 0)
        return;
    attr->mtime_ns = head->changed_ns;
    if (attr->ctime_ns < head->changed_ns)
        attr->ctime_ns = head->changed_ns;
}

static int look(const struct fan_names *names, const struct fan_names_path *path, bool follow,
                struct fan_output_attr *attr, char *target, size_t room)
{
    struct fan_name head;
    const struct fan_name *name;
    enum found found = find(names, path, path->bytes, &head, &name);
    if (found == UNSURE)
        return FAN_NAMES_ASK;
    if (found == NOTHING || (head.flags & (FAN_NAME_ENTRY | FAN_NAME_ASK)) == 0)
        return judge_missing(names, path);
    bool link = S_ISLNK(head.attr.mode), directory = S_ISDIR(head.attr.mode);
    if ((head.flags & FAN_NAME_ASK) || (link && follow) ||
        (directory && !(head.flags & FAN_NAME_COVERED)))
        return FAN_NAMES_ASK;
    with_times(&head, attr);
    if (!link)
        return 0;
    if (padded(head.target_bytes) + 1 > room)
        return FAN_NAMES_ASK;
    load_words(target, (const char *)(name + 1) + padded(head.path_bytes),
               padded(head.target_bytes));
    target[head.target_bytes] = '\0';
    return 0;
}

/* An even number to compare with afterwards; odd where nothing can be read now. */
static uint64_t begin(const struct fan_names *names)
{
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t sequence = load(&names->header->sequence);
        if (sequence % 2 == 0)
            return sequence;
    }
    return 1;
}

static bool unchanged(const struct fan_names *names, uint64_t sequence)
{
    return load(&names->header->sequence) == sequence && fan_names_kept(names);
}

int fan_names_look(const struct fan_names *names, const struct fan_names_path *path, bool follow,
                   struct fan_output_attr *attr, char *target, size_t room)
{
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t sequence = begin(names);
        if (sequence % 2 != 0 || !fan_names_settled(names))
            return FAN_NAMES_ASK;
        int rc = look(names, path, follow, attr, target, room);
        if (unchanged(names, sequence))
            return rc;
    }
    return FAN_NAMES_ASK;
}

/* The directory of a path with all its names, of which nobody is writing any. NULL: ask. */
static const struct fan_name *directory(const struct fan_names *names,
                                        const struct fan_names_path *path, struct fan_name *head)
{
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t sequence = begin(names);
        if (sequence % 2 != 0 || !fan_names_settled(names))
            return NULL;
        const struct fan_name *name;
        bool whole = find(names, path, path->bytes, head, &name) == FOUND &&
                     (head->flags & FAN_NAME_COVERED) && head->asked == 0;
        if (unchanged(names, sequence))
            return whole ? name : NULL;
    }
    return NULL;
}

int64_t fan_names_list_bytes(const struct fan_names *names, const struct fan_names_path *path)
{
    struct fan_name head;
    if (directory(names, path, &head) == NULL || head.listing_bytes > names->bytes)
        return FAN_NAMES_ASK;
    return (int64_t)(head.listing_bytes + head.listing_bytes / 8 + 4096);
}

/* Puts a child into a listing. Its bytes; 0: it is none to be seen; -1: it does not fit. */
static int64_t put_entry(const struct fan_name *name, const struct fan_name *head, size_t skipped,
                         char *to, size_t room)
{
    if (!(head->flags & FAN_NAME_ENTRY))
        return 0;
    if (head->path_bytes <= skipped)
        return -1;
    size_t name_bytes = head->path_bytes - skipped;
    uint64_t bytes = fan_names_entry_bytes(name_bytes);
    if (bytes > room || name_bytes > 255)
        return -1;
    struct fan_output_name entry = {.ino = head->attr.ino,
                                    .type = head->attr.mode >> 12 & 15,
                                    .name_bytes = (uint32_t)name_bytes};
    memcpy(to, &entry, sizeof(entry));
    memset(to + bytes - WORD, 0, WORD);
    uint64_t word;
    const uint64_t *words = (const uint64_t *)(name + 1);
    for (size_t at = skipped; at < head->path_bytes;) {
        size_t inside = at % WORD, part = WORD - inside;
        if (part > head->path_bytes - at)
            part = head->path_bytes - at;
        word = load(&words[at / WORD]);
        memcpy(to + sizeof(entry) + (at - skipped), (const char *)&word + inside, part);
        at += part;
    }
    return (int64_t)bytes;
}

/* Walks the children of `head`; they are whole if its generation is the same afterwards. */
static int64_t walk(const struct fan_names *names, const struct fan_name *top, char *to,
                    size_t room)
{
    size_t skipped = top->path_bytes > 0 ? top->path_bytes + 1 : 0;
    uint64_t unit = top->first;
    int64_t done = 0;
    struct fan_name head;
    for (uint64_t i = 0; unit != 0 && i < top->children; i++, unit = head.after) {
        const struct fan_name *name = name_at(names, unit, &head);
        int64_t bytes =
            name == NULL ? -1 : put_entry(name, &head, skipped, to + done, room - (size_t)done);
        if (bytes < 0)
            return -1;
        done += bytes;
    }
    return unit == 0 ? done : -1;
}

int64_t fan_names_list(const struct fan_names *names, const struct fan_names_path *path, char *to,
                       size_t room)
{
    for (unsigned i = 0; i < LIST_TRIES; i++) {
        struct fan_name before, after;
        const struct fan_name *top = directory(names, path, &before);
        if (top == NULL)
            return FAN_NAMES_ASK;
        int64_t bytes = walk(names, &before, to, room);
        if (directory(names, path, &after) == top && before.generation == after.generation)
            return bytes < 0 ? FAN_NAMES_ASK : bytes;
    }
    return FAN_NAMES_ASK;
}
