/* Packs that are on the local disks in part: a record comes to whoever keeps it, once, and stays.
 */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "node_client.h"
#include "node_readers.h"
#include "node_world.h"

enum { RANKS = 3, DEADLINE_MS = 30000, SHORT_MS = 2000, ODD_BYTES = 131072 };

/* The disks. gone: the shared file system gives nothing; slow: each of its answers takes a while;
 * full: the local one takes nothing; lies: what is read of files of `lies_of` bytes is wrong so
 * many times; hangs: whoever reads such a file waits. readings: of each record from the shared file
 * system, while it is slow. */
static atomic_bool gone, slow, full, hangs;
static atomic_int lies;
static atomic_ulong lies_of = ODD_BYTES;
static atomic_int readings[WORLD_FILES + 1];

static void path_of(int fd, char path[PATH_MAX])
{
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    path[readlink(link, path, PATH_MAX - 1) > 0 ? strlen(path) : 0] = '\0';
}

static bool is_local(int fd)
{
    char path[PATH_MAX] = "";
    path_of(fd, path);
    return strstr(path, ".sparse") != NULL;
}

/* Counts the records that a reading of a pack covers. */
static void read_slowly(int fd, uint64_t offset, uint64_t bytes)
{
    char path[PATH_MAX] = "";
    unsigned pack;
    path_of(fd, path);
    const char *name = strstr(path, "/pack-");
    if (name == NULL || sscanf(name, "/pack-%u", &pack) != 1)
        return;
    for (uint64_t id = 1; id <= WORLD_FILES; id++) {
        uint64_t at = world_file_offset(id);
        if (world_file_pack(id) == pack && at >= offset && at < offset + bytes)
            atomic_fetch_add(&readings[id], 1);
    }
    pause_ms(5);
}

/* Take the place of libc's. */
ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
    bool local = is_local(fd);
    while (!local && bytes == ODD_BYTES && atomic_load(&hangs))
        pause_ms(1);
    if (!local && atomic_load(&gone))
        return errno = EIO, -1;
    if (!local && atomic_load(&slow))
        read_slowly(fd, (uint64_t)offset, bytes);
    ssize_t got = (ssize_t)syscall(SYS_pread64, fd, to, bytes, offset);
    if (!local && bytes == atomic_load(&lies_of) && atomic_load(&lies) > 0) {
        atomic_fetch_sub(&lies, 1);
        *(char *)to ^= 1;
    }
    return got;
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
    if (atomic_load(&full))
        return errno = ENOSPC, -1;
    return (ssize_t)syscall(SYS_pwrite64, fd, from, bytes, offset);
}

static uint64_t total_bytes(void)
{
    uint64_t bytes = 0;
    for (uint64_t record = 1; record <= WORLD_FILES; record++)
        bytes += world_file_bytes(record);
    return bytes;
}

static void open_world(struct world *world, uint32_t ranks, uint64_t deadline_ms)
{
    world_open(world,
               (struct world_shape){ranks, 0, WORLD_LARGE_BYTES, deadline_ms, FAN_POLICY_CLOSE,
                                    true, true},
               0);
}

static void read_all(struct world *world, uint32_t rank, int expected)
{
    struct node_client client;
    client_open(&client, world->nodes[rank]);
    for (uint64_t record = 1; record <= WORLD_FILES; record++)
        CHECK(client_read(&client, 0, record) == expected);
    client_close(&client);
}

/* The sum of one figure over the ranks. */
#define SUM(world, field)                                                                          \
    ({                                                                                             \
        uint64_t sum_ = 0;                                                                         \
        for (uint32_t rank_ = 0; rank_ < (world)->shape.ranks; rank_++)                            \
            sum_ += world_stats(world, rank_).field;                                               \
        sum_;                                                                                      \
    })

/* Whoever reads what, in whatever order: each record is read once in all, then never again. */
static void test_once(void)
{
    struct world world;
    open_world(&world, RANKS, DEADLINE_MS);
    read_on(&world, RANKS, 1);
    EVENTUALLY(SUM(&world, kept_records) == WORLD_FILES);
    CHECK(SUM(&world, kept_bytes) == total_bytes());
    CHECK(SUM(&world, shared_bytes) == total_bytes());
    atomic_store(&gone, true);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        read_all(&world, rank, 0);
    atomic_store(&gone, false);
    CHECK(SUM(&world, shared_bytes) == total_bytes() && SUM(&world, failures) == 0);
    world_close(&world);
}

/* Each record is read once in all, also while each rank brings its share ahead and clients read. */
static void test_once_beside_runs(void)
{
    struct world world;
    open_world(&world, RANKS, DEADLINE_MS);
    atomic_store(&slow, true);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        world_fill_ahead(&world, rank);
    read_on(&world, RANKS, 1);
    EVENTUALLY(SUM(&world, filling_ahead) == 0);
    atomic_store(&slow, false);
    for (uint64_t record = 1; record <= WORLD_FILES; record++)
        CHECK(atomic_exchange(&readings[record], 0) == 1);
    CHECK(SUM(&world, kept_bytes) == total_bytes());
    world_close(&world);
}

static bool is_own(const struct world *world, uint32_t rank, uint64_t record)
{
    return world_keeper(world, record) == rank;
}

/* Each disk has room for `copy_bytes` of other ranks' files. Each rank soon has copies of files of
 * one block, as far as they have room, and reads nothing of the shared file system for that. */
static void test_copies(uint64_t copy_bytes)
{
    struct world world;
    world_open(&world,
               (struct world_shape){.ranks = RANKS,
                                    .cache_bytes = WORLD_LARGE_BYTES,
                                    .deadline_ms = DEADLINE_MS,
                                    .policy = FAN_POLICY_CLOSE,
                                    .shared = true,
                                    .partial = true,
                                    .copy_bytes = copy_bytes},
               0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        world_fill_ahead(&world, rank);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint64_t own = 0, all = 0;
        for (uint64_t record = 1; record <= WORLD_FILES; record++) {
            bool has_copy = world_file_bytes(record) <= FAN_CACHE_BLOCK_BYTES;
            own += is_own(&world, rank, record) ? world_file_bytes(record) : 0;
            all += is_own(&world, rank, record) || has_copy ? world_file_bytes(record) : 0;
        }
        if (copy_bytes > all)
            EVENTUALLY(world_stats(&world, rank).kept_bytes == all);
        else
            EVENTUALLY(world_stats(&world, rank).kept_bytes > own);
        CHECK(world_stats(&world, rank).kept_bytes <= own + copy_bytes);
    }
    read_on(&world, (1 << RANKS) - 1, 1);
    CHECK(SUM(&world, shared_bytes) == total_bytes() && SUM(&world, failures) == 0);
    world_close(&world);
}

/* Ahead comes what is of the rank's own share. */
static void test_ahead(void)
{
    struct world world;
    open_world(&world, RANKS, DEADLINE_MS);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        world_fill_ahead(&world, rank);
    EVENTUALLY(SUM(&world, filling_ahead) == 0 && SUM(&world, kept_records) == WORLD_FILES);
    CHECK(SUM(&world, kept_bytes) == total_bytes());
    uint64_t before = SUM(&world, shared_bytes);
    read_on(&world, RANKS, 1);
    CHECK(SUM(&world, shared_bytes) == before);
    world_close(&world);
}

/* Beside those who read, and at the end of the node. */
static void test_ahead_and_end(void)
{
    struct world world;
    for (unsigned pause = 0; pause < 4; pause++) {
        open_world(&world, RANKS, DEADLINE_MS);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            world_fill_ahead(&world, rank);
        if (pause == 3)
            read_on(&world, RANKS, 1);
        pause_ms(pause);
        world_close(&world);
    }
}

/* A disk that takes no more: all is read elsewhere, and nothing is tried again. */
static void test_full(void)
{
    struct world world;
    open_world(&world, 2, DEADLINE_MS);
    atomic_store(&full, true);
    world_fill_ahead(&world, 0);
    read_all(&world, 0, 0);
    read_all(&world, 1, 0);
    atomic_store(&full, false);
    read_all(&world, 0, 0);
    EVENTUALLY(SUM(&world, filling_ahead) == 0);
    CHECK(SUM(&world, kept_records) == 0 && SUM(&world, full_disks) >= 2);
    CHECK(SUM(&world, failures) == 0);
    world_close(&world);
}

static uint64_t file_of(const struct world *world, uint32_t keeper, uint64_t bytes)
{
    uint64_t record = 1;
    while (world_file_bytes(record) != bytes || world_keeper(world, record) != keeper)
        record++;
    CHECK(record <= WORLD_FILES);
    return record;
}

static uint64_t odd_file(const struct world *world, uint32_t keeper)
{
    return file_of(world, keeper, ODD_BYTES);
}

/* What comes wrong once is read again; what comes wrong twice is damaged, for other ranks too. */
static void test_wrong_bytes(void)
{
    struct world world;
    struct node_client client;
    open_world(&world, 2, DEADLINE_MS);
    client_open(&client, world.nodes[0]);
    atomic_store(&lies, 1);
    CHECK(client_read(&client, 0, odd_file(&world, 0)) == 0);
    CHECK(atomic_load(&lies) == 0 && SUM(&world, kept_records) == 1);
    atomic_store(&lies, 2);
    CHECK(client_read(&client, 0, odd_file(&world, 1)) == -EIO);
    CHECK(atomic_load(&lies) == 0);
    EVENTUALLY(SUM(&world, damaged_records) == 1);
    CHECK(client_read(&client, 0, odd_file(&world, 1)) == -EIO);
    CHECK(SUM(&world, kept_records) == 1);
    client_close(&client);
    world_close(&world);
}

/* A damaged file of several blocks: none of them is read elsewhere, where a block by itself has no
 * checksum. */
static void test_wrong_long_file(void)
{
    enum { LONG_BYTES = (3 << 20) + 12345 };
    struct world world;
    struct node_client client;
    open_world(&world, 2, DEADLINE_MS);
    client_open(&client, world.nodes[0]);
    uint64_t record = file_of(&world, 1, LONG_BYTES);
    atomic_store(&lies_of, LONG_BYTES);
    atomic_store(&lies, 2);
    for (unsigned round = 0; round < 2; round++) {
        for (uint64_t block = 0; block < 4; block++) {
            CHECK(client_pin(&client, 0, fan_cache_file(0, record), block) == -EIO);
            client_unpin(&client, 0);
        }
    }
    CHECK(atomic_load(&lies) == 0 && SUM(&world, kept_records) == 0);
    atomic_store(&lies_of, ODD_BYTES);
    client_close(&client);
    world_close(&world);
}

/* A partial pack that somebody removed, or put another in its place, is used no more. */
static void test_removed(void)
{
    struct world world;
    char share[4096], path[sizeof(share) + 64];
    open_world(&world, 1, DEADLINE_MS);
    read_all(&world, 0, 0);
    CHECK(SUM(&world, kept_records) == WORLD_FILES);
    world_share_path(0, share);
    for (unsigned pack = 0; pack < WORLD_PACKS; pack++) {
        snprintf(path, sizeof(path), "%s/pack-%05u.fsp.sparse", share, pack);
        CHECK(unlink(path) == 0);
    }
    read_all(&world, 0, 0);
    for (unsigned pack = 0; pack < WORLD_PACKS; pack++) {
        snprintf(path, sizeof(path), "%s/pack-%05u.fsp.sparse", share, pack);
        FILE *stream = fopen(path, "w");
        CHECK(stream != NULL && ftruncate(fileno(stream), 64 << 20) == 0);
        fclose(stream);
    }
    read_all(&world, 0, 0);
    world_close(&world);
}

/* A keeper whose shared file system hangs holds up just what hangs. */
static void test_hang(void)
{
    struct world world;
    struct node_client client;
    open_world(&world, 2, SHORT_MS);
    client_open(&client, world.nodes[0]);
    atomic_store(&hangs, true);
    CHECK(client_read(&client, 0, odd_file(&world, 1)) < 0);
    CHECK(client_read(&client, 0, odd_file(&world, 1) + 1) == 0);
    atomic_store(&hangs, false);
    EVENTUALLY(SUM(&world, quarantined) == 0);
    CHECK(client_read(&client, 0, odd_file(&world, 1)) == 0);
    client_close(&client);
    world_close(&world);
}

static uint64_t rotted_bytes(void)
{
    uint64_t bytes = 0;
    for (uint64_t record = 1; record <= WORLD_FILES; record++)
        bytes += world_has_rotted(record) ? world_file_bytes(record) : 0;
    return bytes;
}

/* A job before left all files on each disk. Each disk checks its own, while all ranks read, and
 * reads again only those that are wrong, once. */
static void test_claimed(void)
{
    const struct world_shape shape = {.ranks = RANKS,
                                      .cache_bytes = WORLD_LARGE_BYTES,
                                      .deadline_ms = DEADLINE_MS,
                                      .policy = FAN_POLICY_CLOSE,
                                      .shared = true,
                                      .partial = true,
                                      .claimed = true};
    struct world world;
    world_open(&world, shape, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        world_fill_ahead(&world, rank);
    read_on(&world, RANKS, 1);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        read_all(&world, rank, 0);
    EVENTUALLY(SUM(&world, filling_ahead) == 0);
    CHECK(SUM(&world, mended_records) == RANKS * (WORLD_FILES / 4));
    CHECK(SUM(&world, shared_bytes) >= RANKS * rotted_bytes() && SUM(&world, failures) == 0);
    atomic_store(&gone, true);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        read_all(&world, rank, 0);
    atomic_store(&gone, false);
    CHECK(SUM(&world, damaged_records) == 0 && SUM(&world, kept_records) == 0);
    world_close(&world);
}

int main(void)
{
    test_claimed();
    test_once();
    test_once_beside_runs();
    test_copies(UINT32_MAX);
    test_copies(400000);
    test_ahead();
    test_ahead_and_end();
    test_full();
    test_wrong_bytes();
    test_wrong_long_file();
    test_removed();
    test_hang();
    printf("test_node_partial: no fault\n");
    return 0;
}
