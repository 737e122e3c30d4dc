/* Attaches untrusted bytes as a cache segment, as a client does: the client must stay within its
 * bounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../csrc/client/content/cache_view.h"
#include "fuzz.h"

enum { BLOCK = 1, DATA_BYTES = 4096 };

struct image {
    struct fan_cache_header header;
    struct fan_session session;
    struct fan_bucket bucket;
    struct fan_cache_entry entry;
    uint8_t data[DATA_BYTES];
};

size_t fan_fuzz_seed(unsigned number, uint8_t *buffer, size_t capacity)
{
    struct image *image = (void *)buffer;
    if (number > 0 || capacity < sizeof(*image))
        return 0;
    memset(image, 0, sizeof(*image));
    memcpy(image->header.magic, FAN_CACHE_MAGIC, sizeof(image->header.magic));
    image->header.version = FAN_CACHE_VERSION;
    image->header.layout_id = FAN_CACHE_LAYOUT_ID;
    image->header.segment_bytes = sizeof(*image);
    image->header.sessions_offset = offsetof(struct image, session);
    image->header.buckets_offset = offsetof(struct image, bucket);
    image->header.entries_offset = offsetof(struct image, entry);
    image->header.data_offset = offsetof(struct image, data);
    image->header.session_count = 1;
    image->header.bucket_count = 1;
    image->header.entry_count = 1;
    image->bucket.entries[0] = 1;
    image->entry = (struct fan_cache_entry){.state = FAN_ENTRY_READY,
                                            .bytes = DATA_BYTES,
                                            .file = fan_cache_file(0, 7),
                                            .block = BLOCK,
                                            .offset = offsetof(struct image, data)};
    return sizeof(*image);
}

static void use(struct fan_cache *cache)
{
    uint64_t start, bytes, file = fan_cache_file(0, 7);
    struct fan_cache_entry *entry = fan_cache_find(cache, file, BLOCK, 0);
    const char *data = entry != NULL ? fan_cache_data(cache, entry, &start, &bytes) : NULL;
    volatile char sum = 0;
    for (uint64_t i = 0; data != NULL && i < bytes; i++)
        sum = (char)(sum + data[i]);
    int place = fan_cache_note_file(cache, file);
    if (place >= 0)
        fan_cache_drop_file(cache, (unsigned)place);
    fan_cache_want(cache, &cache->session->pins[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fan_cache cache;
    int fd = memfd_create("fuzz-cache", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
        abort();
    if (fan_cache_attach(&cache, fd, 0) == 0) {
        use(&cache);
        munmap((void *)cache.base, cache.bytes);
    }
    close(fd);
    return 0;
}
