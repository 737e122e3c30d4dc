#include "stored.h"

#include <errno.h>

#include "../../common/original.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../../format/cache_format.h"
#include "../job/packs.h"
#include "../machine/clock.h"
#include "../machine/limits.h"
#include "../machine/page.h"
#include "original.h"
#include "remote.h"

/* Requested stored bytes. They are copied to `to`; if `span` is not NULL, the span gets their
 * address instead, and `to` is memory of our own only if they had to be read. */
struct request {
    struct fan_file *file;
    struct fan_span *span;
    char *to;
    uint64_t offset;
    uint64_t bytes;
};

static struct fan_spares spares;

/* Returns whether the bytes may stay where they are, instead of being copied. */
static bool may_stay(const struct request *request)
{
    return request->span != NULL && request->to == NULL;
}

/* Allocates `to` if needed. Call it before bytes are read to `to`. */
static int make_room(struct request *request)
{
    if (!may_stay(request))
        return 0;
    request->to = fan_spare_take(&spares, request->bytes);
    return request->to != NULL ? 0 : -ENOMEM;
}

/* Counts a read as a wait for the disk if it took longer than a copy in memory. */
static void note_wait(const struct request *request, enum fan_pack_copy copy, int64_t start)
{
    const struct fan_file *file = request->file;
    int64_t ns = fan_clock_ns() - start;
    if (ns > FAN_STORED_COPY_NS(request->bytes))
        fan_trace_stall(copy == FAN_PACK_SHARED ? FAN_STALL_SHARED : FAN_STALL_DISK,
                        file->view->number, file->id, ns);
}

static int read_pack(struct request *request, enum fan_pack_copy copy)
{
    const struct fan_file *file = request->file;
    uint32_t pack = file->record->pack;
    uint64_t offset = file->record->offset + request->offset;
    int rc = make_room(request);
    if (rc != 0)
        return rc;
    int64_t start = fan_clock_ns();
    int parked = fan_pack_fd(file->view, file->dataset, pack, copy), fd = parked;
    if (fd < 0)
        fd = fan_pack_open(file->view, pack, copy); /* all kept descriptors are of other packs */
    if (fd < 0)
        return -EIO;
    rc = fan_sys_read_full(fd, request->to, request->bytes, offset);
    if (fd != parked)
        fan_sys_close(fd);
    note_wait(request, copy, start);
    return rc;
}

static int read_original(struct request *request)
{
    int rc = make_room(request);
    int64_t start = fan_clock_ns();
    if (rc == 0)
        rc = fan_original_pread(request->file, request->to, request->offset, request->bytes);
    note_wait(request, FAN_PACK_SHARED, start);
    return rc;
}

static int read_shared(struct request *request)
{
    const struct fan_dataset *dataset = request->file->dataset;
    if (fan_view_is_far(request->file->view))
        return -EIO;
    int rc = dataset->has_originals ? read_original(request) : read_pack(request, FAN_PACK_SHARED);
    if (rc == 0) {
        FAN_COUNT(shared_reads, 1);
        FAN_COUNT(shared_bytes, request->bytes);
        fan_trace_bytes(FAN_STALL_SHARED, request->bytes);
    }
    return rc;
}

static bool in_one_cache_block(const struct request *request)
{
    uint64_t last = request->offset + request->bytes - 1;
    return request->offset / FAN_CACHE_BLOCK_BYTES == last / FAN_CACHE_BLOCK_BYTES;
}

static int ask_daemon(struct request *request)
{
    int rc = -EAGAIN;
    if (may_stay(request) && in_one_cache_block(request))
        rc = fan_remote_pin(request->file, request->offset, request->bytes, request->span);
    if (rc != -EAGAIN)
        return rc;
    rc = make_room(request);
    return rc != 0 ? rc
                   : fan_remote_read(request->file, request->to, request->offset, request->bytes);
}

/* Reads a file that is damaged for this rank: another rank may have an undamaged copy. */
static int read_elsewhere(struct request *request)
{
    int rc = fan_job.world_size > 1 ? ask_daemon(request) : -EIO;
    return rc == -EREMOTEIO ? -EIO : rc;
}

/* Reads through the node daemon or, if that is not possible, by this process. */
static int read_remote(struct request *request)
{
    int rc = ask_daemon(request);
    return rc == -EREMOTEIO ? read_shared(request) : rc;
}

/* Reads a file that was not resident when it was opened, but may be now. */
static int read_partial(struct request *request)
{
    const struct fan_file *file = request->file;
    const char *base =
        fan_pack_map_partial(file->view, file->dataset, file->record->pack, file->id);
    if (base == NULL)
        return read_remote(request);
    const char *from = base + file->record->offset + request->offset;
    if (!may_stay(request))
        return fan_copy(request->to, from, request->bytes);
    request->span->at = from;
    return 0;
}

static int read_from_place(struct request *request)
{
    const struct fan_file *file = request->file;
    enum fan_bar bar = fan_view_bar(file->view, file->record->pack, file->id);
    if (bar != FAN_NOT_BARRED)
        return bar == FAN_DAMAGED ? read_elsewhere(request) : read_remote(request);
    switch (fan_view_place(file->view, file->record->pack)) {
    case FAN_PLACE_STAGED:
        return read_pack(request, FAN_PACK_STAGED);
    case FAN_PLACE_IN_PLACE:
        return read_shared(request);
    case FAN_PLACE_PARTIAL:
        return read_partial(request);
    case FAN_PLACE_REMOTE:
        return read_remote(request);
    default:
        return -EIO;
    }
}

enum {
    LOOK_PAGES = 64, /* the most that a look looks at */
    LOOKS_MOST = 64, /* looks in a row that find all in memory, before there are fewer */
    UNLOOKED = 127,  /* reads from then on between two looks */
    BEGIN_BYTES = 8 << 20,
    FILE_BYTES = 1 << 20, /* of a file that is read from start to end */
};

/* Returns whether mapped bytes are in memory; of many those at the beginning. at: the start of a
 * page. */
static bool are_in_memory(const char *at, size_t bytes)
{
    unsigned char pages[LOOK_PAGES];
    size_t count = (bytes + fan_page_bytes() - 1) / fan_page_bytes();
    count = count < LOOK_PAGES ? count : LOOK_PAGES;
    if (FAN_SYS(mincore, at, count * fan_page_bytes(), pages) != 0)
        return true;
    for (size_t i = 0; i < count; i++) {
        if ((pages[i] & 1) == 0)
            return false;
    }
    return true;
}

void fan_stored_look(const struct fan_file *file, uint64_t offset, uint64_t bytes)
{
    struct fan_thread_lane *own = &fan_thread_lane;
    const char *at = file->data + offset;
    size_t before = (uintptr_t)at % fan_page_bytes();
    bool onwards = offset == 0 || own->look_end == at;
    own->look_end = at + bytes;
    own->unlooked = UNLOOKED;
    if (fan_restricted()) /* a filter may end the process for these calls */
        return;
    if (are_in_memory(at - before, before + bytes)) {
        own->looks += own->looks < LOOKS_MOST;
        own->unlooked = own->looks < LOOKS_MOST ? 0 : UNLOOKED;
        return;
    }
    own->looks = own->unlooked = 0;
    uint64_t most = BEGIN_BYTES, stored = file->record->stored_size;
    if (onwards && stored > FAN_PIECES_ABOVE_BYTES)
        return; /* what the kernel reads around the page is needed next */
    if (onwards) {
        bytes = stored - offset;
        most = FILE_BYTES;
    }
    fan_sys_begin_reading(at - before, before + (bytes < most ? bytes : most));
}

int fan_stored_read_timed(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    int64_t start = fan_clock_ns();
    int rc = fan_copy(to, file->data + offset, bytes);
    int64_t ns = fan_clock_ns() - start;
    if (ns > FAN_STORED_COPY_NS(bytes))
        fan_trace_stall(FAN_STALL_DISK, file->view->number, file->id, ns);
    return rc;
}

static int read_unmapped(struct request *request)
{
    atomic_fetch_add(&request->file->waiting, 1);
    int rc = read_from_place(request);
    atomic_fetch_sub(&request->file->waiting, 1);
    return rc;
}

int fan_stored_read_unmapped(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    struct request request = {.file = file, .to = to, .offset = offset, .bytes = bytes};
    return read_unmapped(&request);
}

int fan_stored_pin(struct fan_file *file, uint64_t offset, uint64_t bytes, struct fan_span *span)
{
    *span = (struct fan_span){.at = file->data != NULL ? file->data + offset : NULL};
    if (span->at != NULL) {
        fan_stored_watch(file, offset, bytes);
        return 0;
    }
    struct request request = {.file = file, .span = span, .offset = offset, .bytes = bytes};
    int rc = read_unmapped(&request);
    if (rc != 0 && request.to != NULL)
        fan_spare_give(&spares, request.to);
    if (rc == 0 && request.to != NULL)
        span->at = span->memory = request.to;
    return rc;
}

bool fan_stored_unpin(const struct fan_span *span)
{
    if (span->memory != NULL)
        fan_spare_give(&spares, span->memory);
    return span->pin == NULL || fan_remote_unpin(span);
}
