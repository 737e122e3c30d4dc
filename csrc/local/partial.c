#include "partial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../common/original.h"
#include "../format/resident_format.h"

enum { WAIT_S = 5 };

static int map_resident(struct fan_partial *partial, int fd)
{
    struct stat st;
    partial->bytes = fan_resident_bytes(partial->index->record_count, partial->index->pack_count);
    if (fstat(fd, &st) != 0)
        return -errno;
    if ((uint64_t)st.st_size != partial->bytes)
        return -EINVAL;
    int flags = MAP_SHARED | MAP_POPULATE; /* page faults must not delay the node thread */
    void *base = mmap(NULL, partial->bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (base == MAP_FAILED)
        return -errno;
    partial->base = base;
    partial->inodes = (uint64_t *)(partial->base + sizeof(struct fan_resident_header));
    partial->bits =
        (uint64_t *)(partial->base + fan_resident_bits_offset(partial->index->pack_count));
    partial->claims =
        (uint64_t *)(partial->base + fan_resident_claims_offset(partial->index->record_count,
                                                                partial->index->pack_count));
    bool ours = fan_resident_is_of(base, partial->index->record_count, partial->index->pack_count);
    return ours ? 0 : -EINVAL;
}

/* Maps the file `sums`, and makes it if it is missing. Allocates its blocks before mapping it,
 * because otherwise a full disk would end this process later. */
static int map_sums(struct fan_partial *partial, const char *dir)
{
    char path[PATH_MAX];
    size_t bytes = (partial->index->record_count + 1) * sizeof(*partial->sums);
    if (snprintf(path, sizeof(path), "%s/sums", dir) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int rc = -posix_fallocate(fd, 0, (off_t)bytes);
    void *base = rc == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : NULL;
    if (base == MAP_FAILED)
        rc = -errno;
    close(fd);
    if (rc == 0)
        partial->sums = base;
    return rc;
}

int fan_partial_init(struct fan_partial *partial, const struct fan_index *index, const char *dir)
{
    char path[PATH_MAX];
    *partial = (struct fan_partial){.index = index, .dir = dir};
    pthread_mutex_init(&partial->making, NULL);
    pthread_mutex_init(&partial->fetching, NULL);
    pthread_cond_init(&partial->came, NULL);
    partial->coming = calloc(index->record_count / 64 + 1, sizeof(*partial->coming));
    if (partial->coming == NULL)
        return -ENOMEM;
    if (snprintf(path, sizeof(path), "%s/resident", dir) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int rc = map_resident(partial, fd);
    close(fd);
    if (rc == 0 && fan_index_is_planned(index))
        rc = map_sums(partial, dir);
    return rc;
}

void fan_partial_fini(struct fan_partial *partial)
{
    if (partial->base != NULL)
        munmap(partial->base, partial->bytes);
    if (partial->sums != NULL)
        munmap(partial->sums, (partial->index->record_count + 1) * sizeof(*partial->sums));
    free(partial->coming);
    *partial = (struct fan_partial){.index = NULL};
}

static bool is_coming(const struct fan_partial *partial, uint64_t id)
{
    return (partial->coming[id / 64] >> id % 64 & 1) != 0;
}

bool fan_partial_try_begin(struct fan_partial *partial, uint64_t id)
{
    pthread_mutex_lock(&partial->fetching);
    bool free = !is_coming(partial, id);
    partial->coming[id / 64] |= UINT64_C(1) << id % 64;
    pthread_mutex_unlock(&partial->fetching);
    return free;
}

int fan_partial_begin(struct fan_partial *partial, uint64_t id)
{
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&partial->fetching);
    while (rc == 0 && is_coming(partial, id))
        rc = pthread_cond_timedwait(&partial->came, &partial->fetching, &until);
    if (rc == 0)
        partial->coming[id / 64] |= UINT64_C(1) << id % 64;
    pthread_mutex_unlock(&partial->fetching);
    return rc == 0 ? 0 : -EBUSY;
}

void fan_partial_end(struct fan_partial *partial, uint64_t id)
{
    pthread_mutex_lock(&partial->fetching);
    partial->coming[id / 64] &= ~(UINT64_C(1) << id % 64);
    pthread_cond_broadcast(&partial->came);
    pthread_mutex_unlock(&partial->fetching);
}

static int path_of(const struct fan_partial *partial, uint32_t pack, char path[PATH_MAX])
{
    int bytes = snprintf(path, PATH_MAX, "%s/pack-%05u.fsp.sparse", partial->dir, pack);
    return bytes < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Creates an empty partial pack under a temporary name, and gives it the pack's name unless another
 * job has done so. Returns 0, -EEXIST or -errno. */
static int make(struct fan_partial *partial, uint32_t pack, const char *path)
{
    char temporary[PATH_MAX];
    struct stat st;
    uint64_t none = 0;
    if (snprintf(temporary, sizeof(temporary), "%s/XXXXXX.part", partial->dir) >=
        (int)sizeof(temporary))
        return -ENAMETOOLONG;
    int fd = mkostemps(temporary, sizeof(".part") - 1, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int rc = ftruncate(fd, (off_t)partial->index->packs[pack].file_bytes) == 0 ? 0 : -errno;
    if (rc == 0 && fstat(fd, &st) != 0)
        rc = -errno;
    if (rc == 0 && !__atomic_compare_exchange_n(&partial->inodes[pack], &none, st.st_ino, false,
                                                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        rc = -EEXIST; /* another job has created it */
    if (rc == 0 && rename(temporary, path) != 0) {
        rc = -errno;
        __atomic_store_n(&partial->inodes[pack], 0, __ATOMIC_RELEASE);
    }
    if (rc != 0)
        unlink(temporary);
    close(fd);
    return rc;
}

/* Creates a partial pack if it does not exist. Returns 0 or -errno. */
static int make_once(struct fan_partial *partial, uint32_t pack, const char *path)
{
    int rc = 0;
    pthread_mutex_lock(&partial->making);
    if (__atomic_load_n(&partial->inodes[pack], __ATOMIC_ACQUIRE) == 0)
        rc = make(partial, pack, path);
    pthread_mutex_unlock(&partial->making);
    return rc == -EEXIST ? 0 : rc;
}

/* Returns whether a descriptor is of the partial pack to which the file `resident` refers. */
static bool is_the_one(const struct fan_partial *partial, uint32_t pack, int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (uint64_t)st.st_size == partial->index->packs[pack].file_bytes &&
           st.st_ino == __atomic_load_n(&partial->inodes[pack], __ATOMIC_ACQUIRE);
}

int fan_partial_open(struct fan_partial *partial, uint32_t pack, bool to_write)
{
    char path[PATH_MAX];
    int rc = path_of(partial, pack, path);
    if (rc == 0 && to_write)
        rc = make_once(partial, pack, path);
    if (rc != 0)
        return rc;
    int fd = open(path, (to_write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESTALE : -errno;
    if (is_the_one(partial, pack, fd))
        return fd;
    close(fd);
    return -ESTALE;
}

void fan_partial_set(struct fan_partial *partial, uint64_t id)
{
    __atomic_fetch_or(&partial->bits[id / 64], UINT64_C(1) << id % 64, __ATOMIC_RELEASE);
}
