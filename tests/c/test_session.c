/*
 * A client's session: how it is made, refused, shared by threads, not shared by children, and lost;
 * what the daemon sees of open files; segments that are refused.
 */
#include "../../csrc/client/machine/park.h"
#include "remote_job.h"

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

static void scenario_refused(void)
{
    CHECK(shared_reads_for(SMALL) == 1 && shared_reads_for(LARGE) == 1);
    CHECK(atomic_load(&control->begun) == 0);
}

/* Descriptors below 100, but for the shim's own. */
static unsigned count_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 100; fd++)
        count += fcntl(fd, F_GETFD) >= 0 && !fan_is_parked(fd);
    return count;
}

/* No descriptor stays of those that came with the answer. */
static void scenario_in_pieces(void)
{
    unsigned before = count_descriptors();
    CHECK(fan_session() != NULL && count_descriptors() == before);
    CHECK(shared_reads_for(LARGE) == 0);
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

/* A file that is open more often than a session notes: it is read all the same. */
static void scenario_many_open(void)
{
    enum { MANY = FAN_SESSION_WAYS + 50 };
    static int fds[MANY];
    for (unsigned i = 0; i < MANY; i++)
        CHECK((fds[i] = open_record(SMALL)) >= 0);
    CHECK(wait_until(&control->open_files, FAN_SESSION_WAYS));
    for (unsigned i = 0; i < MANY; i++) {
        check_range(fds[i], SMALL, 0, 100);
        close_record(fds[i]);
    }
    CHECK(wait_until(&control->open_files, 0));
}

/* What is closed and opened again before the daemon looked has its place again; afterwards it finds
 * another, until the daemon has freed it. */
static void scenario_reopened(void)
{
    struct fan_cache_header header = fake_header(4);
    struct fan_cache cache;
    int fd = memfd_create("cache", MFD_CLOEXEC);
    CHECK(ftruncate(fd, (off_t)fake_segment_bytes(4)) == 0);
    CHECK(pwrite(fd, &header, sizeof(header), 0) == sizeof(header));
    CHECK(fan_cache_attach(&cache, fd, 0) == 0);
    uint64_t file = fan_cache_file(0, 1);
    int place = fan_cache_note_file(&cache, file);
    uint64_t *closed = &cache.session->closed[place / 64];
    CHECK(place >= 0 && cache.session->files[place] == file && *closed == 0);
    fan_cache_drop_file(&cache, (unsigned)place);
    CHECK(*closed == UINT64_C(1) << place % 64);
    CHECK(fan_cache_note_file(&cache, file) == place && *closed == 0);
    CHECK(fan_cache_note_file(&cache, file) == place + 1);
    fan_cache_drop_file(&cache, (unsigned)place);
    *closed = 0; /* the daemon takes it, and has not freed the place yet */
    CHECK(fan_cache_note_file(&cache, file) == place + 2);
    cache.header->follows_opens = 0;
    CHECK(fan_cache_note_file(&cache, file) == -1);
    munmap((void *)cache.base, cache.bytes);
    close(fd);
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
    munmap((void *)cache.base, cache.bytes);
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

int main(void)
{
    begin();
    run("fork", scenario_fork, (struct control){.entries = 8, .evict_always = true});
    run("kill", scenario_kill, (struct control){.entries = 8, .patience = 1});
    run("daemon dies", scenario_daemon_dies, (struct control){.entries = 8, .silent = true});
    run("nothing left", scenario_nothing_left, (struct control){.entries = 8, .silent = true});
    run("refused", scenario_refused, (struct control){.entries = 8, .refuse = true});
    run("in pieces", scenario_in_pieces, (struct control){.entries = 8, .in_pieces = true});
    run("vfork", scenario_vfork, (struct control){.entries = 8});
    run("many open", scenario_many_open, (struct control){.entries = 8});
    run("reopened", scenario_reopened, (struct control){.entries = 8});
    run("hostile", scenario_hostile, (struct control){.entries = 1});
    printf("test_session: no fault\n");
    return 0;
}
