#include "openset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared.h"

enum { CAPACITY_MIN = 1024 };

static uint64_t place_of(const struct fan_openset *set, uint64_t file)
{
    uint64_t at = fan_cache_hash(file, 0) & (set->capacity - 1);
    while (set->files[at] != 0 && set->files[at] != file)
        at = (at + 1) & (set->capacity - 1);
    return at;
}

static int resize(struct fan_openset *set, uint64_t capacity)
{
    struct fan_openset larger = {.capacity = capacity};
    larger.files = calloc(capacity, sizeof(*larger.files));
    if (larger.files == NULL)
        return -ENOMEM;
    for (uint64_t i = 0; i < set->capacity; i++) {
        if (set->files[i] != 0)
            larger.files[place_of(&larger, set->files[i])] = set->files[i];
    }
    larger.count = set->count;
    free(set->files);
    *set = larger;
    return 0;
}

static int add(struct fan_openset *set, uint64_t file)
{
    if (2 * (set->count + 1) > set->capacity) {
        int rc = resize(set, set->capacity == 0 ? CAPACITY_MIN : 2 * set->capacity);
        if (rc != 0)
            return rc;
    }
    uint64_t at = place_of(set, file);
    set->count += set->files[at] == 0;
    set->files[at] = file;
    return 0;
}

static int add_session(struct fan_openset *set, const struct fan_session *session)
{
    for (unsigned i = 0; i < FAN_SESSION_FILES; i++) {
        uint64_t file = fan_acquire64(&session->files[i]);
        if (file != 0 && add(set, file) != 0)
            return -ENOMEM;
    }
    return 0;
}

int fan_openset_gather(struct fan_openset *set, const struct fan_segment *segment,
                       const struct fan_live *live)
{
    if (set->files != NULL)
        memset(set->files, 0, set->capacity * sizeof(*set->files));
    set->count = 0;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < live->count; i++)
        rc = add_session(set, &segment->sessions[live->sessions[i]]);
    return rc;
}

bool fan_openset_has(const struct fan_openset *set, uint64_t file)
{
    return set->capacity > 0 && set->files[place_of(set, file)] == file;
}

void fan_openset_fini(struct fan_openset *set)
{
    free(set->files);
    *set = (struct fan_openset){0};
}
