#include "node_world.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../csrc/common/index.h"
#include "../../csrc/format/cache_format.h"
#include "../../csrc/format/pack_format.h"
#include "../../csrc/format/resident_format.h"
#include "../../csrc/format/shm_format.h"
#include "../../csrc/local/xxh3.h"
#include "../../csrc/node/state/state.h"
#include "../../csrc/prepare/index/lookups.h"
#include "check.h"

enum { RECORDS = WORLD_FILES + 1, SLOTS = 2 * RECORDS, NAME_BYTES = 8, DIRECTORY_MAX = 2048 };
enum { MIB = 1 << 20, SEGMENT_BYTES = 32768, MOUNT = 256, PLACES = 1024, DAMAGE = 2048 };
enum { UNCHECKED = 3072, TEXT = 4096 };

static const uint64_t sizes[] = {1,       100,     4096,    4097,        70000,   131072,
                                 500000,  300000,  MIB - 1, MIB,         MIB + 1, 3 * MIB + 12345};

static char directory[DIRECTORY_MAX];

uint64_t world_file_bytes(uint64_t record)
{
    return sizes[record % (sizeof(sizes) / sizeof(sizes[0]))];
}

uint32_t world_file_pack(uint64_t record)
{
    return (uint32_t)(record * 7 / 3) % WORLD_PACKS;
}

/* Files lie one after the other in their pack, each on a page of its own. */
uint64_t world_file_offset(uint64_t record)
{
    uint64_t offset = FAN_PACK_HEADER_BYTES;
    for (uint64_t id = 1; id < record; id++) {
        if (world_file_pack(id) == world_file_pack(record))
            offset += (world_file_bytes(id) + 4095) / 4096 * 4096 + 64;
    }
    return offset / 64 * 64;
}

/* Differs between neighbours, pages and blocks. */
static uint8_t content_byte(uint64_t record, uint64_t at)
{
    return (uint8_t)(record * 101 + at + (at >> 8) * 3 + (at >> 12) * 7 + (at >> 20) * 13);
}

static uint64_t pack_bytes(uint32_t pack)
{
    uint64_t bytes = FAN_PACK_HEADER_BYTES;
    for (uint64_t id = 1; id < RECORDS; id++) {
        uint64_t end = world_file_offset(id) + world_file_bytes(id);
        if (world_file_pack(id) == pack && end > bytes)
            bytes = end;
    }
    return bytes + 64;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    close(fd);
}

static uint8_t packs[WORLD_PACKS][16 * MIB];

const uint8_t *world_content(uint64_t record)
{
    return packs[world_file_pack(record)] + world_file_offset(record);
}

static void write_pack(uint32_t pack)
{
    uint8_t *data = packs[pack];
    char name[32];
    CHECK(pack_bytes(pack) <= sizeof(packs[0]));
    for (uint64_t id = 1; id < RECORDS; id++) {
        uint64_t offset = world_file_offset(id);
        for (uint64_t at = 0; world_file_pack(id) == pack && at < world_file_bytes(id); at++)
            data[offset + at] = content_byte(id, at);
    }
    snprintf(name, sizeof(name), "pack-%05u.fsp", pack);
    write_file(name, data, pack_bytes(pack));
}

static uint64_t checksum_of(uint64_t record)
{
    struct fan_xxh3 hash;
    fan_xxh3_begin(&hash, world_file_bytes(record));
    fan_xxh3_add(&hash, world_content(record), world_file_bytes(record));
    return fan_xxh3_end(&hash);
}

static void fill_records(struct fan_record *records, char *names)
{
    records[0] = (struct fan_record){
        .mode = S_IFDIR | 0755, .nlink = 2, .offset = 1, .stored_size = WORLD_FILES};
    for (uint64_t id = 1; id < RECORDS; id++) {
        snprintf(names + id * NAME_BYTES, NAME_BYTES, "f%04u", (unsigned)id);
        records[id] = (struct fan_record){.mode = S_IFREG | 0644,
                                          .nlink = 1,
                                          .pack = world_file_pack(id),
                                          .logical_size = world_file_bytes(id),
                                          .stored_size = world_file_bytes(id),
                                          .offset = world_file_offset(id),
                                          .checksum = checksum_of(id),
                                          .name_offset = id * NAME_BYTES,
                                          .name_bytes = 5};
    }
}

static void write_index(void)
{
    const uint64_t counts[FAN_SECTION_COUNT] = {RECORDS,
                                                SLOTS,
                                                RECORDS * NAME_BYTES,
                                                1,
                                                0,
                                                WORLD_PACKS,
                                                [FAN_SECTION_MILESTONES] =
                                                    fan_milestone_count(RECORDS)};
    static const uint32_t entries[] = {64, 4, 1, 8, 16, sizeof(struct fan_pack_info),
                                       64, 2, 8, 1, 8};
    static uint8_t image[65536] __attribute__((aligned(64)));
    struct fan_index_header *header = (void *)image;
    uint64_t used = FAN_INDEX_HEADER_BYTES;
    memset(image, 0, sizeof(image));
    for (uint32_t kind = 0; kind < FAN_SECTION_COUNT; kind++) {
        header->sections[kind] = (struct fan_section){used, counts[kind], kind, entries[kind]};
        used += (counts[kind] * entries[kind] + 63) / 64 * 64;
    }
    CHECK(used <= sizeof(image));
    memcpy(header->magic, FAN_INDEX_MAGIC, sizeof(header->magic));
    header->version = FAN_INDEX_VERSION;
    header->layout_id = FAN_INDEX_LAYOUT_ID;
    header->file_bytes = used;
    header->record_count = RECORDS;
    header->pack_count = WORLD_PACKS;
    header->block_bytes = MIB;
    header->section_count = FAN_SECTION_COUNT;
    struct fan_record *records = (void *)(image + header->sections[FAN_SECTION_RECORDS].offset);
    char *names = (char *)image + header->sections[FAN_SECTION_NAMES].offset;
    struct fan_pack_info *infos = (void *)(image + header->sections[FAN_SECTION_PACKS].offset);
    fill_records(records, names);
    for (uint32_t pack = 0; pack < WORLD_PACKS; pack++)
        infos[pack] = (struct fan_pack_info){.file_bytes = pack_bytes(pack)};
    uint64_t hashes[RECORDS];
    struct fan_named named = {records, names, RECORDS, RECORDS * NAME_BYTES, hashes};
    CHECK(fan_hash_paths(&named) == 0);
    CHECK(fan_fill_slots(&named, (void *)(image + header->sections[FAN_SECTION_SLOTS].offset),
                         SLOTS, &header->max_probe) == 0);
    fan_fill_milestones(&named, (void *)(image + header->sections[FAN_SECTION_MILESTONES].offset));
    write_file("index.fsi", image, used);
}

static struct fan_shm_string put(char *segment, uint64_t *used, const char *text)
{
    struct fan_shm_string string = {*used, strlen(text)};
    memcpy(segment + *used, text, string.bytes);
    *used += string.bytes;
    return string;
}

int world_has(const struct world *world, uint32_t rank, uint32_t pack)
{
    uint32_t ranks = world->shape.ranks;
    if (world->shape.partial)
        return 0;
    return (rank + ranks - pack % ranks) % ranks < world->shape.replicas;
}

void world_segment_path(uint32_t rank, char path[4096])
{
    snprintf(path, 4096, "%s/job-%u/segment", directory, rank);
}

void world_share_path(uint32_t rank, char path[4096])
{
    snprintf(path, 4096, "%s/share-%u", directory, rank);
}

int world_has_rotted(uint64_t record)
{
    return record % 4 == 0;
}

/* The partial pack that a job before left, with all of its files. Its inode number. */
static uint64_t write_claimed(uint32_t rank, uint32_t pack)
{
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof(path), "%s/share-%u/pack-%05u.fsp.sparse", directory, rank, pack);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)pack_bytes(pack)) == 0 && fstat(fd, &st) == 0);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        uint64_t bytes = world_file_bytes(record), at = world_file_offset(record);
        if (world_file_pack(record) != pack)
            continue;
        CHECK(pwrite(fd, world_content(record), bytes, (off_t)at) == (ssize_t)bytes);
        uint8_t wrong = (uint8_t)~world_content(record)[bytes - 1];
        if (world_has_rotted(record))
            CHECK(pwrite(fd, &wrong, 1, (off_t)(at + bytes - 1)) == 1);
    }
    close(fd);
    return st.st_ino;
}

static void write_resident(uint32_t rank, int claimed)
{
    static char image[4096] __attribute__((aligned(64)));
    struct fan_resident_header *header = (void *)image;
    char path[PATH_MAX], name[64];
    world_share_path(rank, path);
    CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
    for (uint32_t pack = 0; pack < WORLD_PACKS; pack++) {
        snprintf(path, sizeof(path), "%s/share-%u/pack-%05u.fsp.sparse", directory, rank, pack);
        unlink(path);
    }
    memcpy(header->magic, FAN_RESIDENT_MAGIC, sizeof(header->magic));
    header->version = FAN_RESIDENT_VERSION;
    header->layout_id = FAN_RESIDENT_LAYOUT_ID;
    header->record_count = RECORDS;
    header->pack_count = WORLD_PACKS;
    uint64_t *inodes = (uint64_t *)(image + sizeof(*header));
    uint64_t *claims = (uint64_t *)(image + fan_resident_claims_offset(RECORDS, WORLD_PACKS));
    *claims = claimed ? UINT64_MAX : 0;
    for (uint32_t pack = 0; pack < WORLD_PACKS; pack++)
        inodes[pack] = claimed ? write_claimed(rank, pack) : 0;
    snprintf(name, sizeof(name), "share-%u/resident", rank);
    write_file(name, image, fan_resident_bytes(RECORDS, WORLD_PACKS));
}

/* The bytes of all packs before one. */
static uint64_t pack_start(uint32_t pack)
{
    uint64_t start = 0;
    for (uint32_t before = 0; before < pack; before++)
        start += pack_bytes(before);
    return start;
}

static void share_bounds(const struct world *world, uint64_t bounds[LOOPBACK_RANKS + 1])
{
    for (uint32_t rank = 0; rank <= world->shape.ranks; rank++)
        bounds[rank] = pack_start(WORLD_PACKS) * rank / world->shape.ranks;
}

uint32_t world_keeper(const struct world *world, uint64_t record)
{
    uint64_t bounds[LOOPBACK_RANKS + 1];
    uint64_t at = pack_start(world_file_pack(record)) + world_file_offset(record);
    uint32_t rank = 0;
    share_bounds(world, bounds);
    while (bounds[rank + 1] <= at)
        rank++;
    return rank;
}

void world_fill_ahead(struct world *world, uint32_t rank)
{
    uint64_t records[WORLD_FILES];
    for (uint64_t i = 0; i < WORLD_FILES; i++)
        records[i] = i + 1; /* in no order of the packs; of all shares */
    CHECK(fan_node_fill_ahead(world->nodes[rank], 0, records, WORLD_FILES) == 0);
}

static void write_segment(const struct world *world, uint32_t rank)
{
    char share[PATH_MAX], job[PATH_MAX];
    static char segment[SEGMENT_BYTES] __attribute__((aligned(64)));
    char index_path[PATH_MAX], name[32];
    struct fan_job_header *header = (void *)segment;
    struct fan_mount *mount = (void *)(segment + MOUNT);
    struct fan_place *places = (void *)(segment + PLACES);
    uint64_t used = TEXT;
    memset(segment, 0, sizeof(segment));
    snprintf(index_path, sizeof(index_path), "%s/index.fsi", directory);
    memcpy(header->magic, FAN_JOB_MAGIC, sizeof(header->magic));
    *header = (struct fan_job_header){.version = FAN_JOB_VERSION,
                                      .layout_id = FAN_JOB_LAYOUT_ID,
                                      .segment_bytes = SEGMENT_BYTES,
                                      .mounts_offset = MOUNT,
                                      .mount_count = 1,
                                      .state = FAN_JOB_SERVING};
    memcpy(header->magic, FAN_JOB_MAGIC, sizeof(header->magic));
    *mount = (struct fan_mount){.places_offset = PLACES,
                                .damage_offset = DAMAGE,
                                .unchecked_offset = UNCHECKED,
                                .record_count = RECORDS,
                                .pack_count = WORLD_PACKS};
    mount->prefix = put(segment, &used, "/fanstore-world");
    mount->index_path = put(segment, &used, index_path);
    world_share_path(rank, share);
    mount->staged_dir = put(segment, &used, world->shape.partial ? share : directory);
    mount->dataset_dir = put(segment, &used, world->shape.shared ? directory : "/none");
    for (uint32_t pack = 0; pack < WORLD_PACKS; pack++)
        places[pack].state = world->shape.partial           ? FAN_PLACE_PARTIAL
                             : world_has(world, rank, pack) ? FAN_PLACE_STAGED
                                                            : FAN_PLACE_REMOTE;
    if (world->shape.partial)
        write_resident(rank, world->shape.claimed);
    world_segment_path(rank, job);
    *strrchr(job, '/') = '\0';
    CHECK(mkdir(job, 0700) == 0 || errno == EEXIST);
    snprintf(name, sizeof(name), "job-%u/segment", rank);
    write_file(name, segment, SEGMENT_BYTES);
}

static void make_dataset(void)
{
    char here[DIRECTORY_MAX - 32];
    if (directory[0] != '\0')
        return;
    CHECK(getcwd(here, sizeof(here)) != NULL);
    snprintf(directory, sizeof(directory), "%s/test-node-world", here);
    CHECK(mkdir(directory, 0700) == 0 || errno == EEXIST);
    for (uint32_t pack = 0; pack < WORLD_PACKS; pack++)
        write_pack(pack);
    write_index();
}

static void tell_replicas(const struct world *world, uint32_t own)
{
    for (uint32_t pack = 0; pack < WORLD_PACKS; pack++) {
        uint32_t ranks[LOOPBACK_RANKS], count = 0;
        for (uint32_t rank = 0; rank < world->shape.ranks; rank++) {
            if (rank != own && world_has(world, rank, pack))
                ranks[count++] = rank;
        }
        CHECK(fan_node_set_replicas(world->nodes[own], 0, pack, ranks, count) == 0);
    }
}

static void make_node(struct world *world, uint32_t rank)
{
    char path[PATH_MAX];
    world_segment_path(rank, path);
    struct fan_node_options options = {.job_segment = path,
                                       .cache_bytes = world->shape.cache_bytes,
                                       .deadline_ns = world->shape.deadline_ms * 1000000,
                                       .shared_deadline_ns = world->shape.deadline_ms * 1000000,
                                       .policy = world->shape.policy,
                                       .rank = rank,
                                       .world_size = world->shape.ranks,
                                       .idle_sleep_us = 1000};
    CHECK(fan_node_open(&options, &world->nodes[rank]) == 0);
    tell_replicas(world, rank);
    if (world->shape.partial) {
        const uint64_t none[LOOPBACK_RANKS + 1] = {0};
        uint64_t bounds[LOOPBACK_RANKS + 1];
        bool in_memory = world->shape.memory;
        share_bounds(world, bounds);
        CHECK(fan_node_set_share(world->nodes[rank], 0, in_memory ? none : bounds, UINT64_MAX,
                                 in_memory ? bounds : none, world->shape.copy_bytes) == 0);
    }
}

static void open_node(struct world *world, uint32_t rank)
{
    make_node(world, rank);
    CHECK(fan_node_start(world->nodes[rank], loopback_transport(world->loopback, rank)) == 0);
}

void world_open(struct world *world, struct world_shape shape, unsigned absent)
{
    make_dataset();
    *world = (struct world){.shape = shape, .loopback = loopback_open(shape.ranks)};
    for (uint32_t rank = 0; rank < shape.ranks; rank++) {
        write_segment(world, rank);
        if ((absent >> rank & 1) == 0)
            open_node(world, rank);
    }
}

void world_open_still(struct world *world, uint32_t rank)
{
    make_node(world, rank);
    world->nodes[rank]->ranks.transport = loopback_transport(world->loopback, rank);
}

void world_close(struct world *world)
{
    for (uint32_t rank = 0; rank < world->shape.ranks; rank++)
        CHECK(fan_node_stop(world->nodes[rank]) == 0);
    for (uint32_t rank = 0; rank < world->shape.ranks; rank++)
        fan_node_close(world->nodes[rank]);
    loopback_close(world->loopback);
}

void world_damage(struct world *world, uint32_t rank, uint64_t record)
{
    char path[PATH_MAX];
    (void)world;
    world_segment_path(rank, path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    char *segment = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(segment != MAP_FAILED);
    close(fd);
    struct fan_place *place = (struct fan_place *)(segment + PLACES) + world_file_pack(record);
    uint64_t *words = (void *)(segment + DAMAGE);
    __atomic_fetch_or(&words[record / 64], UINT64_C(1) << record % 64, __ATOMIC_RELEASE);
    __atomic_fetch_or(&place->flags, FAN_PLACE_HAS_DAMAGE, __ATOMIC_RELEASE);
    munmap(segment, SEGMENT_BYTES);
}

struct fan_node_stats world_stats(const struct world *world, uint32_t rank)
{
    struct fan_node_stats stats;
    fan_node_stats(world->nodes[rank], &stats);
    return stats;
}

uint64_t world_remote_file(const struct world *world)
{
    uint64_t record = 1;
    while (world_has(world, 0, world_file_pack(record)) ||
           world_file_bytes(record) > FAN_CACHE_BLOCK_BYTES)
        record++;
    CHECK(record <= WORLD_FILES);
    return record;
}

struct loopback_knobs *world_knobs(struct world *world, uint32_t rank)
{
    return loopback_knobs(world->loopback, rank);
}

void pause_ms(unsigned ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

uint64_t world_begin_order(const struct world *world, const uint64_t *entries, uint64_t count)
{
    int64_t id = fan_node_order_begin(world->nodes[0], 0, entries, count, 0);
    CHECK(id > 0);
    return (uint64_t)id;
}
