/*
 * Remote reads against a daemon that takes blocks away at every occasion: every byte compared, from
 * many threads, across forks and kills, with a cache smaller than a read, with refusals, silence,
 * lies and the daemon's death. Each scenario is a process of its own, with a daemon of its own.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "../../csrc/client/content_io.h"
#include "../../csrc/client/open.h"
#include "../../csrc/client/overlay.h"
#include "../../csrc/client/session.h"
#include "../../csrc/format/pack_format.h"
#include "../../tools/fuzz/jobdir.h"
#include "../../tools/fuzz/tree.h"
#include "fake_daemon.h"

enum { MIB = 1 << 20, CAPACITY = 1 << 18, LIMIT_S = 150 };
enum { LARGE = 4, EVEN = 8, TABLE = 9, DAMAGED = 11, LOST = 13, SMALL = 17 };
enum { LARGE_BYTES = 5 * MIB + 123, EVEN_BYTES = 3 * MIB };
enum { TABLE_BYTES = 10000, TABLE_BLOCK = 4096, TABLE_BLOCKS = 3, TABLE_HEAD = TABLE_BLOCKS * 8 };

/* Longer than a socket address holds. */
#define DIRECTORY                                                                                  \
    "test-remote-job-with-a-name-that-is-longer-than-the-address-of-a-socket-can-hold-which-is-"   \
    "not-much-more-than-a-hundred-bytes-in-all"

static const uint64_t files[] = {LARGE, EVEN, TABLE, 14, SMALL};
enum { FILES = sizeof(files) / sizeof(files[0]) };

static const struct fan_record *records;
static struct control *control;
static pid_t daemon_pid;

static uint64_t stored_bytes(uint64_t id)
{
    return records[id].stored_size;
}

/* A file of which no block could be compressed: its table, then the blocks as they are. */
static void fill_table(uint8_t *to, uint64_t offset, uint64_t bytes)
{
    static uint8_t stored[TABLE_HEAD + TABLE_BYTES];
    uint64_t ends[TABLE_BLOCKS];
    for (uint64_t i = 0; i < TABLE_BLOCKS; i++) {
        uint64_t end = (i + 1) * TABLE_BLOCK;
        ends[i] = TABLE_HEAD + (end < TABLE_BYTES ? end : TABLE_BYTES);
    }
    memcpy(stored, ends, sizeof(ends));
    jobdir_fill(stored + TABLE_HEAD, TABLE, 0, TABLE_BYTES);
    memcpy(to, stored + offset, bytes);
}

static void fill(uint8_t *to, uint64_t id, uint64_t offset, uint64_t bytes)
{
    if (id == TABLE)
        fill_table(to, offset, bytes);
    else
        jobdir_fill(to, id, offset, bytes);
}

static int open_record(uint64_t id)
{
    struct fan_target target;
    char path[512] = JOBDIR_PREFIX "/";
    size_t start = strlen(path);
    const struct fan_index *index = &fan_view_dataset(&fan_job.views[0])->index;
    int64_t bytes = fan_index_path(index, id, path + start, sizeof(path) - start - 1);
    CHECK(bytes >= 0);
    path[start + (size_t)bytes] = '\0';
    CHECK(fan_locate(AT_FDCWD, path, FAN_NOFOLLOW, &target));
    return fan_open(&target, O_RDONLY | O_CLOEXEC);
}

static void close_record(int fd)
{
    fan_file_remove(fd);
    close(fd);
}

static void set_place(uint32_t state)
{
    __atomic_store_n(&fan_job.views[0].places[0].state, state, __ATOMIC_RELEASE);
}

/* Reads a range of an open file and compares it. */
static void check_range(int fd, uint64_t id, uint64_t offset, uint64_t bytes)
{
    uint8_t *got = malloc(bytes), *expected = malloc(bytes);
    uint64_t size = records[id].logical_size, inside = size - offset;
    if (inside > bytes)
        inside = bytes;
    CHECK(fan_content_pread(fan_file_get(fd), got, bytes, (int64_t)offset) == (ssize_t)inside);
    jobdir_fill(expected, id, offset, inside);
    CHECK(memcmp(got, expected, inside) == 0);
    free(got);
    free(expected);
}

static void check_whole(uint64_t id)
{
    int fd = open_record(id);
    CHECK(fd >= 0);
    check_range(fd, id, 0, records[id].logical_size);
    close_record(fd);
}

static bool wait_until(const atomic_uint *value, unsigned expected)
{
    for (int i = 0; i < 10000 && atomic_load(value) != expected; i++)
        usleep(1000);
    return atomic_load(value) == expected;
}

static uint64_t count_of(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* How many reads of the shared file system `id` costs. */
static uint64_t shared_reads_for(uint64_t id)
{
    uint64_t before = count_of(&fan_job.counters->shared_reads);
    check_whole(id);
    return count_of(&fan_job.counters->shared_reads) - before;
}

static void check_no_pin_left(void)
{
    const struct fan_cache *cache = fan_session_now();
    CHECK(cache != NULL && atomic_load(&cache->abandoned) == 0);
    for (unsigned i = 0; i < FAN_SESSION_PINS; i++)
        CHECK(fan_pin_state(&cache->session->pins[i]) == FAN_PIN_FREE);
}

static void on_alarm(int signal)
{
    (void)signal;
}

/* Reads everything in turn, ranges of all sizes. */
static void *read_about(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (int round = 0; round < 60; round++) {
        uint64_t id = files[(unsigned)rand_r(&seed) % FILES], size = records[id].logical_size;
        uint64_t most = round % 10 == 0 ? size : round % 2 == 0 ? 300000 : 5000;
        int fd = open_record(id);
        CHECK(fd >= 0);
        check_range(fd, id, (uint64_t)rand_r(&seed) % size, 1 + (uint64_t)rand_r(&seed) % most);
        close_record(fd);
    }
    return NULL;
}

static void run_readers(unsigned count)
{
    pthread_t threads[16];
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, read_about, (void *)(uintptr_t)(i + 1)) == 0);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Many threads, evictions all the time, late answers, signals. */
static void scenario_many(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval every = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    run_readers(8);
    setitimer(ITIMER_REAL, &never, NULL);
    check_no_pin_left();
    CHECK(atomic_load(&control->evictions) > 0);
    CHECK(count_of(&fan_job.counters->cache_hits) > 0);
    CHECK(count_of(&fan_job.counters->cache_misses) > 0);
    CHECK(count_of(&fan_job.counters->remote_opens) == 8 * 60);
    CHECK(count_of(&fan_job.counters->remote_bytes) > 0);
    CHECK(count_of(&fan_job.counters->shared_reads) == 0);
    CHECK(atomic_load(&control->begun) == 1 && wait_until(&control->open_files, 0));
}

/* One block is all there is: what is asked for ahead may not keep the rest out. */
static void scenario_tiny(void)
{
    run_readers(3);
    CHECK(shared_reads_for(LARGE) == 0);
    check_no_pin_left();
}

/* A block that is there costs no want; an entry that a pin names is spared. */
static void scenario_hits(void)
{
    int fd = open_record(LARGE);
    check_range(fd, LARGE, 0, LARGE_BYTES);
    unsigned wants = atomic_load(&control->wants);
    uint64_t misses = count_of(&fan_job.counters->cache_misses);
    CHECK(misses == 6 && wants >= 6);
    check_range(fd, LARGE, 100, LARGE_BYTES);
    CHECK(atomic_load(&control->wants) == wants);
    CHECK(count_of(&fan_job.counters->cache_misses) == misses);
    CHECK(count_of(&fan_job.counters->cache_hits) == 6);
    CHECK(count_of(&fan_job.counters->remote_bytes) == 2 * LARGE_BYTES - 100);
    close_record(fd);
}

static void scenario_errors(void)
{
    char data[100];
    int fd = open_record(DAMAGED);
    CHECK(fd >= 0 && fan_content_pread(fan_file_get(fd), data, sizeof(data), 0) == -EIO);
    close_record(fd);
    CHECK(shared_reads_for(LOST) == 1);
    CHECK(count_of(&fan_job.counters->shared_bytes) == records[LOST].logical_size);
    CHECK(shared_reads_for(SMALL) == 0);
    fd = open_record(SMALL);
    CHECK(fan_content_pread(fan_file_get(fd), (void *)8, 10, 0) == -EFAULT);
    close_record(fd);
    check_no_pin_left();
}

/* fork(2) as the preload wraps it. */
static pid_t fork_client(void)
{
    fan_file_before_fork();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        fan_file_after_fork_child();
    return pid;
}

static void check_exit(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void scenario_fork(void)
{
    int fd = open_record(EVEN);
    check_range(fd, EVEN, 0, EVEN_BYTES);
    pid_t child = fork_client();
    if (child == 0) {
        CHECK(fan_session_now() == NULL);
        check_range(fd, EVEN, 0, EVEN_BYTES);
        CHECK(wait_until(&control->live, 2) && wait_until(&control->open_files, 2));
        close_record(fd);
        CHECK(wait_until(&control->open_files, 1));
        read_about((void *)1);
        _exit(0);
    }
    check_exit(child);
    CHECK(atomic_load(&control->begun) == 2 && wait_until(&control->live, 1));
    check_range(fd, EVEN, 0, EVEN_BYTES);
    CHECK(wait_until(&control->open_files, 1));
    close_record(fd);
    CHECK(wait_until(&control->open_files, 0));
}

static void read_for_ever(int ready)
{
    check_whole(EVEN);
    pid_t heir = fork_client(); /* has inherited the socket, and must not keep it */
    if (heir == 0)
        pause();
    CHECK(write(ready, &heir, sizeof(heir)) == sizeof(heir));
    for (;;)
        read_about((void *)1);
}

/* A killed client's session ends although a child of it lives on, and others read on. */
static void scenario_kill(void)
{
    int ready[2], status;
    pid_t heir;
    check_whole(EVEN);
    CHECK(pipe(ready) == 0);
    for (int round = 0; round < 3; round++) {
        pid_t child = fork_client();
        if (child == 0)
            read_for_ever(ready[1]);
        CHECK(read(ready[0], &heir, sizeof(heir)) == sizeof(heir));
        usleep(20000);
        CHECK(atomic_load(&control->live) == 2);
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
        CHECK(wait_until(&control->live, 1) && wait_until(&control->open_files, 0));
        CHECK(kill(heir, SIGKILL) == 0);
        CHECK(shared_reads_for(LARGE) == 0);
    }
}

static void *kill_daemon_later(void *unused)
{
    (void)unused;
    while (atomic_load(&control->wants) == 0)
        usleep(1000);
    CHECK(kill(daemon_pid, SIGKILL) == 0);
    return NULL;
}

/* The daemon dies while it is waited for: the shared file system, at once from then on. */
static void scenario_daemon_dies(void)
{
    pthread_t killer;
    CHECK(pthread_create(&killer, NULL, kill_daemon_later, NULL) == 0);
    CHECK(shared_reads_for(LARGE) == 1);
    CHECK(pthread_join(killer, NULL) == 0);
    CHECK(fan_session() == NULL && shared_reads_for(SMALL) == 1);
}

/* As above, and the shared copy is gone as well. */
static void scenario_nothing_left(void)
{
    char data[10];
    int fd = open_record(SMALL);
    CHECK(fan_session_now() != NULL);
    CHECK(kill(daemon_pid, SIGKILL) == 0);
    CHECK(rename(DIRECTORY "/pack-00000.fsp", DIRECTORY "/away") == 0);
    CHECK(fan_content_pread(fan_file_get(fd), data, sizeof(data), 0) == -EIO);
    CHECK(rename(DIRECTORY "/away", DIRECTORY "/pack-00000.fsp") == 0);
    close_record(fd);
}

/* A daemon that is not to be believed is not asked twice; the bytes are right all the same. */
static void scenario_lie(void)
{
    CHECK(shared_reads_for(SMALL) == 1 && atomic_load(&control->wants) == 1);
    CHECK(shared_reads_for(SMALL) == 1 && atomic_load(&control->wants) == 1);
}

static void scenario_refused(void)
{
    CHECK(shared_reads_for(SMALL) == 1 && shared_reads_for(LARGE) == 1);
    CHECK(atomic_load(&control->begun) == 0);
}

static void scenario_in_pieces(void)
{
    int before = dup(0), after;
    close(before);
    CHECK(shared_reads_for(LARGE) == 0);
    CHECK((after = dup(0)) == before); /* no descriptor stayed */
    close(after);
}

/* A vfork child makes no session, and uses its parent's. */
static void check_vfork(bool shared)
{
    fan_file_before_vfork();
    fan_overlay_arm();
    pid_t child = vfork();
    if (child == 0)
        _exit(fan_in_vfork_child() && shared_reads_for(SMALL) == (shared ? 1 : 0) ? 0 : 1);
    check_exit(child);
    CHECK(!fan_in_vfork_child());
}

static bool vfork_shares_memory(void)
{
    static volatile bool seen;
    pid_t child = vfork();
    if (child == 0) {
        seen = true;
        _exit(0);
    }
    check_exit(child);
    return seen;
}

static void scenario_vfork(void)
{
    if (!vfork_shares_memory()) /* the thread sanitizer makes a fork of it */
        return;
    check_vfork(true);
    CHECK(atomic_load(&control->begun) == 0);
    check_whole(SMALL);
    check_vfork(false);
    CHECK(atomic_load(&control->begun) == 1);
}

/* Staged while it is open: read from there, mapped when it is opened again. */
static void scenario_staged_later(void)
{
    int fd = open_record(LARGE);
    CHECK(fan_file_get(fd)->data == NULL);
    set_place(FAN_PLACE_STAGED);
    check_range(fd, LARGE, 0, LARGE_BYTES);
    close_record(fd);
    fd = open_record(LARGE);
    CHECK(fan_file_get(fd)->data != NULL);
    check_range(fd, LARGE, 0, LARGE_BYTES);
    close_record(fd);
    CHECK(atomic_load(&control->wants) == 0);
    CHECK(count_of(&fan_job.counters->shared_reads) == 0);
    CHECK(wait_until(&control->open_files, 0));
}

/* More open files than a session notes: the others are read all the same. */
static void scenario_many_open(void)
{
    enum { MANY = FAN_SESSION_FILES + 50 };
    static int fds[MANY];
    for (unsigned i = 0; i < MANY; i++)
        CHECK((fds[i] = open_record(SMALL)) >= 0);
    CHECK(wait_until(&control->open_files, FAN_SESSION_FILES));
    for (unsigned i = 0; i < MANY; i++) {
        check_range(fds[i], SMALL, 0, 100);
        close_record(fds[i]);
    }
    CHECK(wait_until(&control->open_files, 0));
}

static void *free_one_pin(void *pin)
{
    usleep(50000);
    fan_pin_free(pin);
    return NULL;
}

/* A read waits for a pin, and takes no more than there are. */
static void scenario_no_pin(void)
{
    pthread_t helper;
    struct fan_cache *cache = fan_session();
    CHECK(cache != NULL);
    for (unsigned i = 0; i < FAN_SESSION_PINS; i++)
        CHECK(fan_pin_claim(&cache->session->pins[i]));
    CHECK(pthread_create(&helper, NULL, free_one_pin, &cache->session->pins[5]) == 0);
    CHECK(shared_reads_for(LARGE) == 0);
    CHECK(pthread_join(helper, NULL) == 0);
}

static void refuse(struct fan_cache_header header, uint64_t file_bytes, uint32_t number)
{
    struct fan_cache cache;
    int fd = memfd_create("hostile-cache", MFD_CLOEXEC);
    CHECK(ftruncate(fd, (off_t)file_bytes) == 0);
    CHECK(pwrite(fd, &header, sizeof(header), 0) == sizeof(header));
    CHECK(ftruncate(fd, (off_t)file_bytes) == 0);
    CHECK(fan_cache_attach(&cache, fd, number) == -EPROTO);
    close(fd);
}

#define REFUSE(field, value)                                                                       \
    do {                                                                                           \
        struct fan_cache_header header = fake_header(4);                                           \
        header.field = (value);                                                                    \
        refuse(header, fake_segment_bytes(4), 0);                                                  \
    } while (0)

static void scenario_hostile(void)
{
    struct fan_cache cache;
    struct fan_cache_header good = fake_header(4);
    int fd = fake_segment(4);
    CHECK(fan_cache_attach(&cache, fd, FAKE_SESSIONS - 1) == 0);
    fan_cache_detach(&cache);
    close(fd);
    REFUSE(magic[0], 'X');
    REFUSE(version, FAN_CACHE_VERSION + 1);
    REFUSE(layout_id, 0);
    REFUSE(segment_bytes, fake_segment_bytes(4) + 1);
    REFUSE(segment_bytes, sizeof(good));
    REFUSE(sessions_offset, 0);
    REFUSE(sessions_offset, UINT64_MAX - 7);
    REFUSE(sessions_offset, good.sessions_offset + 4);
    REFUSE(session_count, FAN_SESSIONS_MAX + 1);
    REFUSE(session_count, 0);
    REFUSE(buckets_offset, good.segment_bytes - 8);
    REFUSE(bucket_count, 0);
    REFUSE(bucket_count, 3);
    REFUSE(bucket_count, UINT32_C(1) << 31);
    REFUSE(entries_offset, UINT64_C(1) << 63);
    REFUSE(entry_count, UINT32_MAX);
    REFUSE(data_offset, good.segment_bytes + 8);
    refuse(good, good.segment_bytes, FAKE_SESSIONS);
    refuse(good, good.segment_bytes - 1, 0);
    refuse(good, sizeof(good) - 1, 0);
}

static pid_t start_daemon(void)
{
    int listener = fake_listen(DIRECTORY);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        fake_run(control, listener);
    close(listener);
    return pid;
}

static void run(const char *name, void (*scenario)(void), struct control how)
{
    int status;
    *control = how;
    control->stored_bytes = stored_bytes;
    control->fill = fill;
    memset(fan_job.counters, 0, sizeof(*fan_job.counters));
    set_place(FAN_PLACE_REMOTE);
    daemon_pid = start_daemon();
    pid_t pid = fork_client();
    if (pid == 0) {
        alarm(LIMIT_S);
        scenario();
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    kill(daemon_pid, SIGKILL);
    CHECK(waitpid(daemon_pid, NULL, 0) == daemon_pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fprintf(stderr, "test_remote: %s failed (%d)\n", name, status);
    CHECK(status == 0);
}

static void place_file(struct fan_record *all, uint64_t id, uint64_t logical, uint64_t stored)
{
    all[id].logical_size = logical;
    all[id].stored_size = stored;
    all[id].offset = JOBDIR_LARGE_OFFSET + id * 8 * MIB;
}

static void make_job(void)
{
    static uint8_t index[CAPACITY] __attribute__((aligned(64)));
    size_t bytes = tree_fill((struct tree_shape){2, 12}, index, CAPACITY);
    const struct fan_index_header *header = (const void *)index;
    struct fan_record *all = (void *)(index + header->sections[FAN_SECTION_RECORDS].offset);
    CHECK(bytes > 0 && header->block_bytes == TABLE_BLOCK);
    place_file(all, LARGE, LARGE_BYTES, LARGE_BYTES);
    place_file(all, EVEN, EVEN_BYTES, EVEN_BYTES);
    place_file(all, TABLE, TABLE_BYTES, TABLE_HEAD + TABLE_BYTES);
    CHECK(all[TABLE].codec != FAN_CODEC_STORE);
    records = all;
    jobdir_attach(DIRECTORY, index, bytes, TREE_PACK_BYTES);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    make_job();
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    CHECK(control != MAP_FAILED);
    run("many", scenario_many, (struct control){.entries = 20, .patience = 2, .evict_always = true});
    run("tiny", scenario_tiny, (struct control){.entries = 1});
    run("hits", scenario_hits, (struct control){.entries = 12});
    run("errors", scenario_errors,
        (struct control){.entries = 8, .damaged_id = DAMAGED, .lost_id = LOST});
    run("fork", scenario_fork, (struct control){.entries = 8, .evict_always = true});
    run("kill", scenario_kill, (struct control){.entries = 8, .patience = 1});
    run("daemon dies", scenario_daemon_dies, (struct control){.entries = 8, .silent = true});
    run("nothing left", scenario_nothing_left, (struct control){.entries = 8, .silent = true});
    for (enum lie lie = LIE_ENTRY; lie <= LIE_FREED; lie++)
        run("lie", scenario_lie, (struct control){.entries = 8, .lie = lie});
    run("refused", scenario_refused, (struct control){.entries = 8, .refuse = true});
    run("in pieces", scenario_in_pieces, (struct control){.entries = 8, .in_pieces = true});
    run("vfork", scenario_vfork, (struct control){.entries = 8});
    run("staged later", scenario_staged_later, (struct control){.entries = 8});
    run("many open", scenario_many_open, (struct control){.entries = 8});
    run("no pin", scenario_no_pin, (struct control){.entries = 8});
    run("hostile", scenario_hostile, (struct control){.entries = 1});
    printf("test_remote: no fault\n");
    return 0;
}
