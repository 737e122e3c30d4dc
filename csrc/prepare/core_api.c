#include "core_api.h"

#include <errno.h>
#include <string.h>

#include "../common/index.h"

static int attach(struct fan_index *index, const void *base, uint64_t bytes)
{
    struct fan_fault fault;
    return fan_index_attach(index, base, bytes, &fault);
}

int fan_core_index_check(const void *base, uint64_t bytes, const char **field, uint64_t *offset)
{
    struct fan_index index;
    struct fan_fault fault = {0};
    int rc = fan_index_attach(&index, base, bytes, &fault);
    *field = fault.field;
    *offset = fault.offset;
    return rc;
}

int64_t fan_core_index_lookup(const void *base, uint64_t bytes, const char *relpath,
                              uint64_t relpath_bytes)
{
    struct fan_index index;
    int rc = attach(&index, base, bytes);
    return rc != 0 ? rc : fan_index_lookup(&index, relpath, relpath_bytes);
}

int64_t fan_core_index_path(const void *base, uint64_t bytes, uint64_t id, char *buffer,
                            uint64_t capacity)
{
    struct fan_index index;
    int rc = attach(&index, base, bytes);
    return rc != 0 ? rc : fan_index_path(&index, id, buffer, capacity);
}

int fan_core_index_children(const void *base, uint64_t bytes, uint64_t id, uint64_t *first,
                            uint64_t *count)
{
    struct fan_index index;
    int rc = attach(&index, base, bytes);
    return rc != 0 ? rc : fan_index_children(&index, id, first, count);
}

uint64_t fan_core_path_hash(const char *relpath, uint64_t relpath_bytes)
{
    uint64_t hash = FAN_PATH_HASH_ROOT;
    const char *end = relpath + relpath_bytes;
    while (relpath < end) {
        const char *slash = memchr(relpath, '/', (size_t)(end - relpath));
        const char *stop = slash != NULL ? slash : end;
        hash = fan_path_hash_step(hash, relpath, (size_t)(stop - relpath));
        relpath = slash != NULL ? slash + 1 : end;
    }
    return hash;
}

int fan_core_fill_slots(const struct fan_record *records, uint64_t record_count,
                        const char *names, uint64_t names_bytes, uint64_t *slots,
                        uint64_t slot_count, uint32_t *max_probe)
{
    return fan_index_fill_slots(records, record_count, names, names_bytes, slots, slot_count,
                                max_probe);
}
