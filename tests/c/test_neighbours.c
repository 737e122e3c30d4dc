/*
 * Packs of other ranks of the node: found by many threads at once, not before their records are
 * checked, later than the reader, and not by segments that are of another job or broken. Each
 * scenario is a process of its own, which has seen no neighbour before.
 */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../csrc/client/job/packs.h"
#include "../../csrc/common/sys.h"
#include "../../tools/fuzz/jobdir.h"
#include "../../tools/fuzz/tree.h"
#include "check.h"

#define DIRECTORY "test-neighbours-job"
#define MISSING DIRECTORY "/missing"
#define NEIGHBOUR DIRECTORY "/neighbour"

/* NEIGHBOURS: an offset in the segment from which on jobdir leaves some bytes empty. */
enum { CAPACITY = 1 << 18, THREADS = 8, RECORD = 8, NEIGHBOURS = 768 };

static struct fan_job_header *own;

static struct fan_mount *mount_of(struct fan_job_header *header)
{
    return (void *)((char *)header + header->mounts_offset);
}

static struct fan_place *place_of(struct fan_job_header *header)
{
    return (void *)((char *)header + mount_of(header)->places_offset);
}

/* Adds a path to the own segment's list of neighbours. */
static void add(const char *path)
{
    char *segment = (char *)own;
    uint32_t number = own->neighbour_count++;
    struct fan_shm_string *paths = (void *)(segment + NEIGHBOURS);
    uint64_t at = NEIGHBOURS + 4 * sizeof(*paths) + number * 64;
    own->neighbours_offset = NEIGHBOURS;
    paths[number] = (struct fan_shm_string){at, strlen(path)};
    memcpy(segment + at, path, strlen(path));
}

/* Makes the segment of a neighbour that has the pack: a copy of the own one as jobdir wrote it.
 * Returns it, mapped. */
static struct fan_job_header *make_neighbour(void)
{
    uint64_t bytes;
    int from = open(DIRECTORY "/segment", O_RDONLY);
    long at = fan_map_whole(from, PROT_READ, &bytes);
    CHECK(!fan_sys_failed(at));
    int to = open(NEIGHBOUR ".part", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(to >= 0 && write(to, (void *)at, bytes) == (ssize_t)bytes);
    long theirs = fan_map_whole(to, PROT_READ | PROT_WRITE, &bytes);
    CHECK(!fan_sys_failed(theirs));
    munmap((void *)at, bytes);
    struct fan_job_header *header = (void *)theirs;
    *place_of(header) = (struct fan_place){FAN_PLACE_STAGED, 0};
    header->neighbour_count = 0;
    CHECK(rename(NEIGHBOUR ".part", NEIGHBOUR) == 0);
    return header;
}

static const char *find(void)
{
    struct fan_view *view = &fan_job.views[0];
    return fan_pack_map_neighbour(view, fan_view_dataset(view), 0, RECORD);
}

static void check_content(const char *base)
{
    uint8_t expected[4096];
    const struct fan_record *record = &fan_view_dataset(&fan_job.views[0])->index.records[RECORD];
    size_t bytes = record->stored_size < sizeof(expected) ? record->stored_size : sizeof(expected);
    CHECK(base != NULL && bytes > 0);
    jobdir_fill(expected, RECORD, 0, bytes);
    CHECK(memcmp(base + record->offset, expected, bytes) == 0);
}

static void *find_and_check(void *unused)
{
    check_content(find());
    return unused;
}

static void scenario_threads(void)
{
    pthread_t threads[THREADS];
    make_neighbour();
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, find_and_check, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(unlink(NEIGHBOUR) == 0);
    check_content(find()); /* as after the neighbour's end */
}

static void scenario_comes_later(void)
{
    CHECK(find() == NULL);
    make_neighbour();
    check_content(find());
}

static void scenario_checked_later(void)
{
    struct fan_job_header *header = make_neighbour();
    struct fan_mount *mount = mount_of(header);
    mount->unchecked_offset = mount->damage_offset; /* a bitmap that nobody else uses here */
    uint64_t *unchecked = (void *)((char *)header + mount->unchecked_offset);
    unchecked[RECORD / 64] |= UINT64_C(1) << RECORD % 64;
    place_of(header)->flags = FAN_PLACE_HAS_UNCHECKED;
    CHECK(find() == NULL);
    __atomic_fetch_and(&unchecked[RECORD / 64], ~(UINT64_C(1) << RECORD % 64), __ATOMIC_RELEASE);
    check_content(find());
}

static void scenario_damaged(void)
{
    struct fan_job_header *header = make_neighbour();
    uint64_t *damage = (void *)((char *)header + mount_of(header)->damage_offset);
    damage[RECORD / 64] |= UINT64_C(1) << RECORD % 64;
    place_of(header)->flags = FAN_PLACE_HAS_DAMAGE;
    CHECK(find() == NULL);
}

static void scenario_partial_without_list(void)
{
    place_of(make_neighbour())->state = FAN_PLACE_PARTIAL;
    CHECK(find() == NULL);
}

static void scenario_not_told(void)
{
    make_neighbour();
    place_of(own)->flags = 0;
    CHECK(find() == NULL);
}

static void scenario_broken(void)
{
    struct fan_job_header *header = make_neighbour(), good = *header;
    struct fan_mount *mount = mount_of(header), whole = *mount;
    header->magic[0] ^= 1;
    CHECK(find() == NULL);
    *header = good;
    header->mount_count = 2;
    CHECK(find() == NULL);
    *header = good;
    header->segment_bytes--;
    CHECK(find() == NULL);
    *header = good;
    mount->places_offset = header->segment_bytes;
    CHECK(find() == NULL);
    *mount = whole;
    mount->staged_dir.bytes = header->segment_bytes;
    CHECK(find() == NULL);
    *mount = whole;
    CHECK(truncate(NEIGHBOUR, 0) == 0); /* nothing of it is mapped yet */
    CHECK(find() == NULL);
}

static void scenario_other_dataset(void)
{
    mount_of(make_neighbour())->device++;
    CHECK(find() == NULL);
}

static void scenario_bad_list(void)
{
    make_neighbour();
    struct fan_shm_string *paths = (void *)((char *)own + NEIGHBOURS);
    struct fan_shm_string good = paths[1];
    paths[1].bytes = UINT64_MAX;
    CHECK(find() == NULL);
    paths[1] = good;
    paths[1].offset = own->segment_bytes + 1;
    CHECK(find() == NULL);
    paths[1] = good;
    own->neighbours_offset = own->segment_bytes;
    CHECK(find() == NULL);
    own->neighbours_offset = NEIGHBOURS;
    check_content(find());
}

/* Runs a scenario in a child, whose changes of the own segment are undone. */
static void run(const char *name, void (*scenario)(void))
{
    int status;
    uint32_t flags = place_of(own)->flags;
    unlink(NEIGHBOUR);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        scenario();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (status != 0)
        fprintf(stderr, "scenario %s: status %d\n", name, status);
    CHECK(status == 0);
    place_of(own)->flags = flags;
}

int main(void)
{
    static uint8_t buffer[CAPACITY] __attribute__((aligned(64)));
    size_t bytes = tree_fill((struct tree_shape){1, 12}, buffer, CAPACITY);
    CHECK(bytes > 0);
    jobdir_attach(DIRECTORY, buffer, bytes, TREE_PACK_BYTES);
    own = (struct fan_job_header *)fan_job.header;
    *place_of(own) = (struct fan_place){FAN_PLACE_REMOTE, FAN_PLACE_AT_NEIGHBOUR};
    add(MISSING);
    add(NEIGHBOUR);
    run("threads", scenario_threads);
    run("comes later", scenario_comes_later);
    run("checked later", scenario_checked_later);
    run("damaged", scenario_damaged);
    run("partial without list", scenario_partial_without_list);
    run("not told", scenario_not_told);
    run("broken", scenario_broken);
    run("other dataset", scenario_other_dataset);
    run("bad list", scenario_bad_list);
    printf("test_neighbours: no fault\n");
    return 0;
}
