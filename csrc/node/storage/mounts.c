#include "mounts.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../common/segment_check.h"
#include "../../format/cache_format.h"
#include "../../format/pack_format.h"
#include "../../local/whole.h"
#include "../../pack/codec.h"
#include "../../pack/content.h"
#include "../machine/shared.h"

#ifndef MADV_POPULATE_READ
#    define MADV_POPULATE_READ 22 /* Linux 5.14; older headers do not know it */
#endif

enum { TEXT_MAX_BYTES = PATH_MAX - 64, PAGE_MIN_BYTES = 4096, SHARED_KEPT_MAX = 4096 };

/* Maps a whole file of `*bytes`, or of any size when that is 0, and closes it. 0 or -errno. */
static int map_fd(int fd, int protection, uint64_t *bytes, char **base)
{
    struct stat st;
    if (fd < 0)
        return fd;
    int rc = fstat(fd, &st) == 0 ? 0 : -errno;
    if (rc == 0 && (st.st_size <= 0 || (*bytes != 0 && (uint64_t)st.st_size != *bytes)))
        rc = -EINVAL;
    if (rc == 0) {
        *bytes = (uint64_t)st.st_size;
        *base = mmap(NULL, *bytes, protection, MAP_SHARED, fd, 0);
        if (*base == MAP_FAILED) {
            *base = NULL;
            rc = -errno;
        }
    }
    close(fd);
    return rc;
}

static int open_file(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* A string of the segment, with a NUL. NULL when it is not inside, or there is no memory. */
static char *copy_text(const struct fan_mounts *mounts, struct fan_shm_string from)
{
    if (from.offset > mounts->segment_bytes || from.bytes > mounts->segment_bytes - from.offset ||
        from.bytes > TEXT_MAX_BYTES)
        return NULL;
    return strndup(mounts->segment + from.offset, from.bytes);
}

/* Before there are threads that decode. One that is not there is missed when it is needed. */
static void load_codecs(uint32_t mask)
{
    fan_codec_load_with(dlopen);
    for (unsigned codec = 0; codec < FAN_CODEC_COUNT; codec++) {
        if ((mask >> codec & 1) != 0)
            fan_codec_load(codec);
    }
}

static int attach_index(struct fan_node_mount *mount, const struct fan_mount *from,
                        const char *path)
{
    struct fan_fault fault;
    char *base = NULL;
    int rc = map_fd(open_file(path, O_RDONLY), PROT_READ, &mount->index_bytes, &base);
    mount->index_base = base;
    if (rc == 0)
        rc = fan_index_attach(&mount->index, base, mount->index_bytes, &fault);
    if (rc == 0 && (mount->index.pack_count != from->pack_count ||
                    mount->index.record_count != from->record_count))
        rc = -EINVAL;
    if (rc == 0)
        load_codecs(mount->index.header->codec_mask);
    return rc;
}

static int attach_mount(const struct fan_mounts *mounts, const struct fan_mount *from,
                        struct fan_node_mount *mount)
{
    uint64_t bytes = mounts->segment_bytes;
    if (!fan_segment_has(bytes, from->places_offset, from->pack_count, sizeof(struct fan_place)) ||
        !fan_segment_has(bytes, from->damage_offset, from->record_count / 64 + 1, sizeof(uint64_t)))
        return -EINVAL;
    mount->places = (void *)(mounts->segment + from->places_offset);
    mount->damage = (void *)(mounts->segment + from->damage_offset);
    mount->staged_dir = copy_text(mounts, from->staged_dir);
    mount->dataset_dir = copy_text(mounts, from->dataset_dir);
    mount->replicas = calloc((size_t)from->pack_count + 1, sizeof(*mount->replicas));
    mount->mapped = calloc((size_t)from->pack_count + 1, sizeof(*mount->mapped));
    mount->shared = calloc((size_t)from->pack_count + 1, sizeof(*mount->shared));
    if (mount->replicas == NULL || mount->mapped == NULL || mount->shared == NULL)
        return -ENOMEM;
    mount->pack_count = from->pack_count;
    char *index_path = copy_text(mounts, from->index_path);
    int rc = -EINVAL;
    if (mount->staged_dir != NULL && mount->dataset_dir != NULL && index_path != NULL)
        rc = attach_index(mount, from, index_path);
    free(index_path);
    return rc;
}

static int attach_all(struct fan_mounts *mounts)
{
    const struct fan_job_header *header = (const void *)mounts->segment;
    const struct fan_mount *from = (const void *)(mounts->segment + header->mounts_offset);
    mounts->mounts = calloc(header->mount_count, sizeof(*mounts->mounts));
    if (mounts->mounts == NULL)
        return -ENOMEM;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < header->mount_count; i++) {
        mounts->count = i + 1;
        rc = attach_mount(mounts, &from[i], &mounts->mounts[i]);
    }
    return rc;
}

/* A quarter of the descriptors: clients' connections take one each. */
static uint32_t kept_most(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 4 > SHARED_KEPT_MAX)
        return SHARED_KEPT_MAX;
    return (uint32_t)(limit.rlim_cur / 4);
}

int fan_mounts_init(struct fan_mounts *mounts, const char *path)
{
    *mounts = (struct fan_mounts){.kept_most = kept_most()};
    int rc = map_fd(open_file(path, O_RDWR), PROT_READ | PROT_WRITE, &mounts->segment_bytes,
                    &mounts->segment);
    if (rc == 0 && !fan_is_job_segment((const void *)mounts->segment, mounts->segment_bytes))
        rc = -EINVAL;
    if (rc == 0)
        rc = attach_all(mounts);
    if (rc != 0)
        fan_mounts_fini(mounts);
    return rc;
}

static void detach_mount(struct fan_node_mount *mount)
{
    for (uint64_t pack = 0; pack < mount->pack_count; pack++) {
        if (mount->mapped[pack] != NULL)
            munmap(mount->mapped[pack], mount->index.packs[pack].file_bytes);
        if (mount->shared[pack] > 0)
            close(mount->shared[pack] - 1);
        free(mount->replicas[pack].ranks);
    }
    fan_share_fini(&mount->share);
    if (mount->index_base != NULL)
        munmap(mount->index_base, mount->index_bytes);
    free(mount->staged_dir);
    free(mount->dataset_dir);
    free(mount->shared);
    free(mount->replicas);
    free(mount->mapped);
}

void fan_mounts_fini(struct fan_mounts *mounts)
{
    for (uint32_t i = 0; i < mounts->count; i++)
        detach_mount(&mounts->mounts[i]);
    free(mounts->mounts);
    if (mounts->segment != NULL)
        munmap(mounts->segment, mounts->segment_bytes);
    *mounts = (struct fan_mounts){0};
}

int fan_mounts_set_replicas(struct fan_mounts *mounts, uint32_t mount, uint32_t pack,
                            const uint32_t *ranks, uint32_t count)
{
    if (mount >= mounts->count || pack >= mounts->mounts[mount].pack_count)
        return -EINVAL;
    uint32_t *copy = malloc(((size_t)count + 1) * sizeof(*copy));
    if (copy == NULL)
        return -ENOMEM;
    if (count > 0)
        memcpy(copy, ranks, count * sizeof(*copy));
    struct fan_replicas *replicas = &mounts->mounts[mount].replicas[pack];
    free(replicas->ranks);
    *replicas = (struct fan_replicas){copy, count};
    return 0;
}

/* The record of a file with content, checked against its pack; or NULL. */
static const struct fan_record *content_record(const struct fan_mounts *mounts, uint32_t mount,
                                               uint64_t id)
{
    if (mount >= mounts->count)
        return NULL;
    const struct fan_index *index = &mounts->mounts[mount].index;
    const struct fan_record *record = fan_index_record(index, id);
    if (record == NULL || fan_content_check(index, record) != 0 || record->logical_size == 0)
        return NULL;
    return record;
}

int fan_mounts_request(const struct fan_mounts *mounts, uint64_t file, uint64_t block,
                       struct fan_fetch_request *request)
{
    uint32_t mount = (uint32_t)(file >> 56);
    uint64_t id = (file & ((UINT64_C(1) << 56) - 1)) - 1;
    const struct fan_record *record = content_record(mounts, mount, id);
    if (record == NULL || block > record->stored_size / FAN_CACHE_BLOCK_BYTES)
        return -EIO;
    uint64_t from = block * FAN_CACHE_BLOCK_BYTES;
    uint64_t rest = record->stored_size - from;
    if (rest == 0)
        return -EIO;
    *request = (struct fan_fetch_request){
        .mount = mount,
        .pack = record->pack,
        .record = id,
        .offset = record->offset + from,
        .bytes = rest < FAN_CACHE_BLOCK_BYTES ? (uint32_t)rest : FAN_CACHE_BLOCK_BYTES,
    };
    return 0;
}

static int check_request(const struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    const struct fan_record *record = content_record(mounts, request->mount, request->record);
    if (record == NULL || record->pack != request->pack || request->offset < record->offset)
        return -EINVAL;
    uint64_t from = request->offset - record->offset;
    if (from > record->stored_size || request->bytes > record->stored_size - from ||
        request->bytes == 0 || request->bytes > FAN_CACHE_BLOCK_BYTES)
        return -EINVAL;
    return 0;
}

bool fan_mounts_has_content(const struct fan_mounts *mounts, uint32_t mount, uint64_t record)
{
    return content_record(mounts, mount, record) != NULL;
}

bool fan_mounts_is_damaged(const struct fan_mounts *mounts, uint32_t number, uint64_t record)
{
    const struct fan_node_mount *mount = &mounts->mounts[number];
    uint32_t pack = mount->index.records[record].pack;
    if ((fan_acquire32(&mount->places[pack].flags) & FAN_PLACE_HAS_DAMAGE) == 0)
        return false;
    uint64_t word = fan_relaxed64(&mount->damage[record / 64]);
    return (word >> record % 64 & 1) != 0;
}

static int pack_path(const char *dir, uint32_t pack, char path[PATH_MAX])
{
    int bytes = snprintf(path, PATH_MAX, "%s/pack-%05u.fsp", dir, pack);
    return bytes < PATH_MAX ? 0 : -ENAMETOOLONG;
}

void fan_mounts_mark_damaged(struct fan_mounts *mounts, uint32_t number, uint64_t record)
{
    struct fan_node_mount *mount = &mounts->mounts[number];
    uint64_t bit = UINT64_C(1) << record % 64;
    uint32_t pack = mount->index.records[record].pack;
    if ((__atomic_fetch_or(&mount->damage[record / 64], bit, __ATOMIC_RELAXED) & bit) == 0)
        fan_count64(&mounts->counts.damaged_records, 1);
    __atomic_fetch_or(&mount->places[pack].flags, FAN_PLACE_HAS_DAMAGE, __ATOMIC_RELEASE);
}

/* Whether the bytes of a request are on the local disk. */
static bool is_here(const struct fan_node_mount *mount, const struct fan_fetch_request *request)
{
    return fan_acquire32(&mount->places[request->pack].state) == FAN_PLACE_STAGED ||
           fan_share_has(mount, request);
}

/* Opens a pack on the local disk: the staged one, or the one that is here in part. */
static int open_here(struct fan_node_mount *mount, uint32_t pack)
{
    char path[PATH_MAX];
    if (fan_acquire32(&mount->places[pack].state) == FAN_PLACE_PARTIAL)
        return fan_partial_open(&mount->share.partial, pack, false);
    int rc = pack_path(mount->staged_dir, pack, path);
    return rc == 0 ? open_file(path, O_RDONLY) : rc;
}

static int map_pack(struct fan_node_mount *mount, uint32_t pack)
{
    uint64_t bytes = mount->index.packs[pack].file_bytes;
    if (mount->mapped[pack] != NULL)
        return 0;
    int rc = map_fd(open_here(mount, pack), PROT_READ, &bytes, &mount->mapped[pack]);
    return rc == 0 ? 0 : -ENOENT;
}

/* Before Linux 5.14: whether the bytes can be read, by reading them. */
static int try_read(struct fan_node_mount *mount, const struct fan_fetch_request *request)
{
    char *scratch = malloc(request->bytes);
    int fd = open_here(mount, request->pack);
    int rc = -EIO;
    if (fd >= 0 && scratch != NULL)
        rc = fan_read_whole(fd, scratch, request->offset, request->bytes);
    if (fd >= 0)
        close(fd);
    free(scratch);
    return rc;
}

/* The pages that hold the bytes of a request. */
struct pages {
    char *start;
    size_t bytes;
};

static struct pages pages_of(const struct fan_mounts *mounts,
                             const struct fan_fetch_request *request)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = request->offset / page * page;
    char *base = mounts->mounts[request->mount].mapped[request->pack];
    return (struct pages){base + start, request->offset + request->bytes - start};
}

const char *fan_mounts_bytes(const struct fan_mounts *mounts,
                             const struct fan_fetch_request *request)
{
    return mounts->mounts[request->mount].mapped[request->pack] + request->offset;
}

bool fan_mounts_is_in_memory(const struct fan_mounts *mounts,
                             const struct fan_fetch_request *request)
{
    unsigned char resident[FAN_CACHE_BLOCK_BYTES / PAGE_MIN_BYTES + 1];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct pages pages = pages_of(mounts, request);
    if (mincore(pages.start, pages.bytes, resident) != 0)
        return true; /* the read will say what is wrong */
    for (size_t i = 0; i * page < pages.bytes; i++) {
        if ((resident[i] & 1) == 0)
            return false;
    }
    return true;
}

/* A page that cannot be read would kill the thread that sends it: asked for here, it is an error.
 */
int fan_mounts_read(const struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    struct pages pages = pages_of(mounts, request);
    if (madvise(pages.start, pages.bytes, MADV_POPULATE_READ) == 0)
        return 0;
    bool unknown = errno == EINVAL || errno == ENOSYS;
    return unknown ? try_read(&mounts->mounts[request->mount], request) : -EIO;
}

int fan_mounts_admit(struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    int rc = check_request(mounts, request);
    if (rc != 0)
        return rc;
    struct fan_node_mount *mount = &mounts->mounts[request->mount];
    if (fan_mounts_is_damaged(mounts, request->mount, request->record))
        return -EIO;
    return is_here(mount, request) ? map_pack(mount, request->pack) : -ENOENT;
}

/* Opens a pack on the shared file system, which must be as long as it was. -errno. */
static int open_shared(const struct fan_node_mount *mount, uint32_t pack)
{
    char path[PATH_MAX];
    struct stat st;
    if (pack_path(mount->dataset_dir, pack, path) != 0)
        return -ENAMETOOLONG;
    int fd = open_file(path, O_RDONLY);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) == 0 && (uint64_t)st.st_size == mount->index.packs[pack].file_bytes)
        return fd;
    close(fd);
    return -EIO;
}

/* Keeps a descriptor for the next reads of a pack. Whether it is kept. */
static bool keep_shared(struct fan_mounts *mounts, int32_t *holder, int fd)
{
    int32_t none = 0;
    if (__atomic_fetch_add(&mounts->kept, 1, __ATOMIC_RELAXED) < mounts->kept_most &&
        __atomic_compare_exchange_n(holder, &none, fd + 1, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
        return true;
    __atomic_fetch_sub(&mounts->kept, 1, __ATOMIC_RELAXED);
    return false;
}

static bool is_own_lack(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

static int read_shared(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to)
{
    const struct fan_node_mount *mount = &mounts->mounts[request->mount];
    int32_t *holder = &mount->shared[request->pack];
    int kept = __atomic_load_n(holder, __ATOMIC_RELAXED) - 1;
    if (kept >= 0 && fan_read_whole(kept, to, request->offset, request->bytes) == 0)
        return 0;
    int fd = open_shared(mount, request->pack); /* again, too: a server may have been restarted */
    if (fd < 0)
        return is_own_lack(fd) ? fd : -EIO;
    int rc = fan_read_whole(fd, to, request->offset, request->bytes);
    if (rc != 0 || kept >= 0 || !keep_shared(mounts, holder, fd))
        close(fd);
    return rc;
}

int fan_mounts_read_shared(struct fan_mounts *mounts, const struct fan_fetch_request *request,
                           void *to)
{
    int rc = read_shared(mounts, request, to);
    fan_count64(&mounts->counts.shared_reads, 1);
    fan_count64(&mounts->counts.shared_bytes, rc == 0 ? request->bytes : 0);
    return rc;
}
