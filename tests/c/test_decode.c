/*
 * Compressed files that another node has: decoded from the cache where a stored block lies in one
 * block of it, from memory that is kept where it lies in two; damaged ones, and a daemon that takes
 * blocks away, forgets its client or dies while a block is looked at.
 */
#include <sys/resource.h>
#include <sys/time.h>

#include "../../csrc/client/content/stored.h"
#include "remote_job.h"

/* The bytes that were pinned. interfere: called when that happens for the first time. */
struct shown {
    uint64_t offset;
    uint64_t bytes;
    void (*interfere)(void);
    unsigned times;
    bool cached; /* at last */
    unsigned pins;
    bool right;
};

static unsigned held_pins(void)
{
    const struct fan_cache *cache = fan_session_now();
    unsigned count = 0;
    for (unsigned i = 0; cache != NULL && i < FAN_SESSION_PINS; i++)
        count += fan_pin_state(&cache->session->pins[i]) == FAN_PIN_HELD;
    return count;
}

static void look_at(struct shown *shown, const char *stored)
{
    const struct fan_cache *cache = fan_session_now();
    shown->cached = cache != NULL && stored >= cache->base && stored < cache->base + cache->bytes;
    shown->pins = held_pins();
    if (++shown->times == 1 && shown->interfere != NULL)
        shown->interfere();
    shown->right = memcmp(stored, coded.bytes + shown->offset, shown->bytes) == 0;
}

/* Looks at the stored bytes of a block of CODED. */
static int show(int fd, uint64_t block, struct shown *shown)
{
    struct fan_span span;
    shown->offset = coded_start(block);
    shown->bytes = coded.ends[block] - shown->offset;
    do {
        int rc = fan_stored_pin(fan_file_get(fd), shown->offset, shown->bytes, &span);
        if (rc != 0)
            return rc;
        look_at(shown, span.at);
    } while (!fan_stored_unpin(&span));
    return 0;
}

/* In the cache, under a pin; or elsewhere, under none. */
static void scenario_where(void)
{
    int fd = open_record(CODED);
    struct shown inside = {0}, spanning = {0}, mapped = {0};
    CHECK(show(fd, 1, &inside) == 0 && inside.times == 1 && inside.right);
    CHECK(inside.cached && inside.pins == 1);
    CHECK(show(fd, spanning_block(), &spanning) == 0 && spanning.times == 1 && spanning.right);
    CHECK(!spanning.cached && spanning.pins == 0);
    check_no_pin_left();
    CHECK(COUNTED(remote_bytes) == inside.bytes + spanning.bytes);
    close_record(fd);
    set_place(FAN_PLACE_STAGED);
    fd = open_record(CODED);
    CHECK(fan_file_get(fd)->data != NULL);
    CHECK(show(fd, 1, &mapped) == 0 && mapped.times == 1 && mapped.right && !mapped.cached);
    close_record(fd);
}

/* Staged, but not mapped; and the shared copy. */
static void scenario_unmapped(void)
{
    struct shown staged = {0}, shared = {0};
    int fd = open_record(CODED);
    set_place(FAN_PLACE_STAGED);
    CHECK(show(fd, 1, &staged) == 0 && staged.times == 1 && staged.right && !staged.cached);
    check_range(fd, CODED, 0, CODED_BYTES);
    CHECK(COUNTED(shared_reads) == 0);
    set_place(FAN_PLACE_IN_PLACE);
    CHECK(show(fd, 1, &shared) == 0 && shared.times == 1 && shared.right && !shared.cached);
    CHECK(COUNTED(shared_reads) == 1 && COUNTED(shared_bytes) == shared.bytes);
    close_record(fd);
    CHECK(atomic_load(&control->wants) == 0);
}

/* What is read, and how often: as if each block was copied first. */
static void scenario_counters(void)
{
    uint64_t stored = coded.ends[CODED_BLOCKS - 1], cached = (stored + MIB - 1) / MIB;
    uint64_t table = (2 * CODED_BLOCKS - 1) * sizeof(uint64_t);
    int fd = open_record(CODED);
    check_range(fd, CODED, 0, CODED_BYTES);
    CHECK(COUNTED(cache_misses) == cached);
    CHECK(COUNTED(cache_hits) == 2 * CODED_BLOCKS + (cached - 1) - cached);
    CHECK(COUNTED(remote_bytes) == stored - CODED_HEAD + table);
    CHECK(COUNTED(decoded_bytes) == 0);
    check_range(fd, CODED, BLOCK + 1, 100);
    CHECK(COUNTED(decoded_bytes) == BLOCK);
    check_range(fd, CODED, BLOCK + 101, 100);
    CHECK(COUNTED(decoded_bytes) == BLOCK);
    CHECK(COUNTED(shared_reads) == 0);
    close_record(fd);
    check_no_pin_left();
}

static char block_of_coded[BLOCK];

static void check_block(int fd, uint64_t block)
{
    int64_t offset = (int64_t)(block * BLOCK);
    CHECK(fan_content_pread(fan_file_get(fd), block_of_coded, BLOCK, offset) == BLOCK);
    for (unsigned i = 0; i < BLOCK; i++)
        CHECK((uint8_t)block_of_coded[i] == jobdir_byte(CODED, (uint64_t)offset + i));
}

/* Once a block was put together, no other takes memory of the kernel's. */
static void scenario_no_memory(void)
{
    struct rlimit limit;
    int fd = open_record(CODED);
    check_block(fd, spanning_block());
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    struct rlimit none = {.rlim_cur = 4096, .rlim_max = limit.rlim_max};
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    CHECK(mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    for (uint64_t block = 0; block < CODED_BLOCKS - 1; block++)
        check_block(fd, block);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    close_record(fd);
}

/* What a daemon does that takes this process for dead: others may have the memory from now on. */
static void take_pins(void)
{
    const struct fan_cache *cache = fan_session_now();
    for (unsigned i = 0; i < FAN_SESSION_PINS; i++) {
        struct fan_pin *pin = &cache->session->pins[i];
        if (fan_pin_state(pin) == FAN_PIN_HELD)
            __atomic_store_n(&pin->state, FAN_PIN_FREE, __ATOMIC_SEQ_CST);
    }
}

/* What was seen then does not count; the shared file system has it. */
static void scenario_pin_taken(void)
{
    struct shown shown = {.interfere = take_pins};
    int fd = open_record(CODED);
    CHECK(show(fd, 1, &shown) == 0 && shown.times == 2 && shown.right && !shown.cached);
    CHECK(COUNTED(remote_bytes) == 0);
    CHECK(COUNTED(shared_reads) == 1 && COUNTED(shared_bytes) == shown.bytes);
    CHECK(fan_session() == NULL);
    check_range(fd, CODED, 0, CODED_BYTES);
    close_record(fd);
}

/* The same of a file whose shared copy is damaged for this rank. */
static void scenario_pin_taken_damaged(void)
{
    struct shown before = {0}, shown = {.interfere = take_pins}, after = {0};
    int fd = open_record(CODED);
    struct fan_view *view = &fan_job.views[0];
    atomic_fetch_or(&view->damage[CODED / 64], UINT64_C(1) << CODED % 64);
    __atomic_fetch_or(&view->places[0].flags, FAN_PLACE_HAS_DAMAGE, __ATOMIC_SEQ_CST);
    fan_job.world_size = 2;
    CHECK(show(fd, 1, &before) == 0 && before.times == 1 && before.right && before.cached);
    CHECK(show(fd, 1, &shown) == -EIO && shown.times == 1);
    CHECK(show(fd, 1, &after) == -EIO && after.times == 0);
    CHECK(fan_content_pread(fan_file_get(fd), block_of_coded, BLOCK, 0) == -EIO);
    CHECK(COUNTED(shared_reads) == 0);
    close_record(fd);
    atomic_fetch_and(&view->damage[CODED / 64], ~(UINT64_C(1) << CODED % 64));
    __atomic_fetch_and(&view->places[0].flags, ~(uint32_t)FAN_PLACE_HAS_DAMAGE, __ATOMIC_SEQ_CST);
}

static void kill_daemon(void)
{
    CHECK(kill(daemon_pid, SIGKILL) == 0);
    while (fan_session_check(fan_session_now()))
        usleep(1000);
}

/* What a dead daemon's cache holds stays as it is under a pin; the rest is read elsewhere. */
static void scenario_daemon_dies(void)
{
    struct shown shown = {.interfere = kill_daemon};
    int fd = open_record(CODED);
    check_range(fd, CODED, 0, CODED_BYTES / 2);
    CHECK(show(fd, 1, &shown) == 0 && shown.times == 1 && shown.right);
    CHECK(COUNTED(shared_reads) == 0);
    check_range(fd, CODED, 0, CODED_BYTES);
    CHECK(COUNTED(shared_reads) > 0);
    close_record(fd);
}

/* A daemon that takes a client for dead while it decodes, and spoils what it decodes from. */
static void scenario_forgotten(void)
{
    check_forgotten(CODED);
}

/* Content that cannot be decoded is an error, and costs neither a pin nor the session. */
static void scenario_damaged(void)
{
    static char data[CODED_BYTES];
    int fd = open_record(SPOILT);
    struct fan_file *file = fan_file_get(fd);
    int64_t spoilt = SPOILT_BLOCK * BLOCK, spanning = (int64_t)(spanning_block() * BLOCK);
    CHECK(fan_content_pread(file, data, CODED_BYTES, 0) == spoilt);
    CHECK(fan_content_pread(file, data, BLOCK, spoilt) == -EIO);
    CHECK(fan_content_pread(file, data, 10, spoilt + 5) == -EIO);
    CHECK(fan_content_pread(file, data, CODED_BYTES, spoilt + BLOCK) == spanning - spoilt - BLOCK);
    CHECK(fan_content_pread(file, data, BLOCK, spanning) == -EIO);
    uint64_t before = COUNTED(remote_bytes), table = 2 * sizeof(uint64_t);
    CHECK(fan_content_pread(file, data, BLOCK, spoilt) == -EIO);
    uint64_t stored = coded.ends[SPOILT_BLOCK] - coded_start(SPOILT_BLOCK);
    CHECK(COUNTED(remote_bytes) == before + table + stored);
    CHECK(COUNTED(shared_reads) == 0 && COUNTED(decoded_bytes) == 0);
    close_record(fd);
    check_no_pin_left();
    CHECK(shared_reads_for(CODED) == 0);
}

static void scenario_bad_address(void)
{
    int fd = open_record(CODED), small = open_record(SMALL);
    struct fan_file *file = fan_file_get(fd);
    char *const bad[] = {NULL, (char *)8};
    for (unsigned i = 0; i < 2; i++) {
        CHECK(fan_content_pread(file, bad[i], BLOCK, 0) == -EFAULT);
        CHECK(fan_content_pread(file, bad[i], 10, 5) == -EFAULT);
        CHECK(fan_content_pread(fan_file_get(small), bad[i], 10, 5) == -EFAULT);
    }
    close_record(fd);
    close_record(small);
    check_no_pin_left();
    CHECK(COUNTED(shared_reads) == 0);
}

static int common_fd;

/* Reads what its thread may be reading just now. */
static void on_alarm(int signal)
{
    static atomic_uint number;
    uint64_t offset = 40009 * (uint64_t)atomic_fetch_add(&number, 1) % (CODED_BYTES - 300);
    uint8_t got[300];
    (void)signal;
    struct fan_file *file = fan_file_get(common_fd);
    CHECK(fan_content_pread(file, got, sizeof(got), (int64_t)offset) == sizeof(got));
    for (unsigned i = 0; i < sizeof(got); i++)
        CHECK(got[i] == jobdir_byte(CODED, offset + i));
}

static void strike_every(int microseconds)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

static void *read_common(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (int round = 0; round < 60; round++) {
        uint64_t most = round % 3 == 0 ? 4 * BLOCK : 5000;
        check_range(common_fd, CODED, (uint64_t)rand_r(&seed) % CODED_BYTES,
                    1 + (uint64_t)rand_r(&seed) % most);
    }
    return NULL;
}

/* Threads and signal handlers at one open file, of which blocks leave the cache all the time. */
static void scenario_one_file(void)
{
    pthread_t threads[4];
    common_fd = open_record(CODED);
    strike_every(5000);
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, read_common, (void *)(i + 1)) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    strike_every(0);
    close_record(common_fd);
    check_no_pin_left();
    CHECK(atomic_load(&control->evictions) > 0);
    CHECK(COUNTED(shared_reads) == 0);
}

/* A child that was forked while its parent keeps memory reads on by itself. */
static void scenario_fork(void)
{
    int fd = open_record(CODED);
    check_range(fd, CODED, 0, CODED_BYTES);
    pid_t child = fork_client();
    check_range(fd, CODED, 0, CODED_BYTES);
    if (child == 0)
        _exit(0);
    check_exit(child);
    CHECK(atomic_load(&control->begun) == 2);
    close_record(fd);
}

int main(void)
{
    begin();
    run("where", scenario_where, (struct control){.entries = 8});
    run("fork, pieces", scenario_fork, (struct control){.entries = 8, .piecemeal = true});
    run("unmapped", scenario_unmapped, (struct control){.entries = 8});
    run("counters", scenario_counters, (struct control){.entries = 8});
    run("no memory", scenario_no_memory, (struct control){.entries = 8});
    run("pin taken", scenario_pin_taken, (struct control){.entries = 8});
    run("pin taken, damaged", scenario_pin_taken_damaged, (struct control){.entries = 8});
    run("daemon dies", scenario_daemon_dies, (struct control){.entries = 8});
    run("forgotten", scenario_forgotten,
        (struct control){.entries = 8, .sleepless = true, .forget = true});
    run("damaged", scenario_damaged, (struct control){.entries = 8});
    run("bad address", scenario_bad_address, (struct control){.entries = 8});
    run("one file", scenario_one_file,
        (struct control){.entries = 3, .patience = 1, .evict_always = true});
    run("fork", scenario_fork, (struct control){.entries = 8, .evict_always = true});
    printf("test_decode: no fault\n");
    return 0;
}
