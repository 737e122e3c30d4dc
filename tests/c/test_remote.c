/*
 * Remote reads against a daemon that takes blocks away at every occasion: every byte compared, from
 * many threads, with a cache smaller than a read, with errors, lies, and pins taken away.
 */
#include <sys/time.h>

#include "remote_job.h"

/* Signals strike reads wherever they are, and hold them up there. */
static void on_alarm(int signal)
{
    (void)signal;
    usleep(20);
}

static void strike_every(int microseconds)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

/* Many threads, evictions all the time, late answers, signals. */
static void scenario_many(void)
{
    strike_every(3000);
    run_readers(8);
    strike_every(0);
    check_no_pin_left();
    CHECK(atomic_load(&control->evictions) > 0);
    CHECK(COUNTED(cache_hits) > 0);
    CHECK(COUNTED(cache_misses) > 0);
    CHECK(COUNTED(remote_opens) == 8 * 60);
    CHECK(COUNTED(remote_bytes) > 0);
    CHECK(COUNTED(shared_reads) == 0);
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
    uint64_t misses = COUNTED(cache_misses);
    CHECK(misses == 6 && wants >= 6);
    check_range(fd, LARGE, 100, LARGE_BYTES);
    CHECK(atomic_load(&control->wants) == wants);
    CHECK(COUNTED(cache_misses) == misses);
    CHECK(COUNTED(cache_hits) == 6);
    CHECK(COUNTED(remote_bytes) == 2 * LARGE_BYTES - 100);
    close_record(fd);
}

static void scenario_errors(void)
{
    char data[100];
    int fd = open_record(DAMAGED);
    CHECK(fd >= 0 && fan_content_pread(fan_file_get(fd), data, sizeof(data), 0) == -EIO);
    close_record(fd);
    CHECK(shared_reads_for(LOST) == 1);
    CHECK(COUNTED(shared_bytes) == records[LOST].logical_size);
    CHECK(shared_reads_for(SMALL) == 0);
    fd = open_record(SMALL);
    CHECK(fan_content_pread(fan_file_get(fd), (void *)8, 10, 0) == -EFAULT);
    close_record(fd);
    check_no_pin_left();
}

/* Damage has the last word: the shared copy of a damaged file is not looked at because a block of it
 * could not be had. */
static void scenario_damaged_and_lost(void)
{
    static char data[LARGE_BYTES];
    int fd = open_record(LARGE);
    CHECK(fd >= 0 && fan_content_pread(fan_file_get(fd), data, sizeof(data), 0) == -EIO);
    CHECK(COUNTED(shared_reads) == 0);
    close_record(fd);
}

/* A daemon that is not to be believed is not asked twice; the bytes are right all the same. */
static void scenario_lie(void)
{
    CHECK(shared_reads_for(SMALL) == 1 && atomic_load(&control->wants) == 1);
    CHECK(shared_reads_for(SMALL) == 1 && atomic_load(&control->wants) == 1);
}

static void read_small(void)
{
    uint8_t got[64], expected[64];
    jobdir_fill(expected, SMALL, 0, sizeof(expected));
    int fd = open_record(SMALL);
    for (int i = 0; i < 5000000 && atomic_load(&control->evictions) < 2000; i++) {
        CHECK(fan_content_pread(fan_file_get(fd), got, sizeof(got), 0) == sizeof(got));
        CHECK(memcmp(got, expected, sizeof(got)) == 0);
    }
    close_record(fd);
}

/* The moment between finding a block and pinning it: one block, taken away as fast as can be. */
static void scenario_race(void)
{
    strike_every(300);
    read_small();
    strike_every(0);
    CHECK(atomic_load(&control->spared) > 0 && atomic_load(&control->evictions) > 0);
    CHECK(COUNTED(cache_hits) > 0);
    CHECK(COUNTED(shared_reads) == 0);
}

/* A daemon that takes a client for dead while it copies: that is seen, and the bytes are right. */
static void scenario_forgotten(void)
{
    check_forgotten(EVEN);
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
    CHECK(COUNTED(shared_reads) == 0);
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

static const struct fan_hint *hint_at(unsigned i)
{
    return &fan_session_now()->session->hints[i];
}

static unsigned hints_given(void)
{
    unsigned given = 0;
    for (unsigned i = 0; i < FAN_SESSION_HINTS; i++)
        given += hint_at(i)->state == FAN_HINT_GIVEN;
    return given;
}

/* What hints say, of which part of a file; this daemon takes none, so later ones are forgotten, and
 * what is read is read all the same. */
static void scenario_hints(void)
{
    int fd = open_record(LARGE), coded_fd = open_record(CODED);
    struct fan_file *file = fan_file_get(fd);
    fan_hint(file, 2 * MIB - 1, 2);
    CHECK(hint_at(0)->block == 1 && hint_at(0)->count == 2);
    CHECK(hint_at(0)->file == fan_cache_file(0, LARGE));
    fan_hint(file, LARGE_BYTES, 1);
    fan_hint(file, -5, 5);
    CHECK(hints_given() == 1);
    fan_hint(file, 4 * MIB, 0);
    CHECK(hint_at(1)->block == 4 && hint_at(1)->count == 2);
    fan_hint(file, 0, INT64_MAX);
    CHECK(hint_at(2)->block == 0 && hint_at(2)->count == 6);
    check_range(fd, LARGE, 0, LARGE_BYTES);
    fan_hint(file, 0, 0);
    CHECK(hints_given() == 3);                            /* it is all there */
    fan_hint(fan_file_get(coded_fd), CODED_BYTES - 1, 1); /* its table, and where that may lie */
    CHECK(hint_at(3)->block == 0 && hint_at(3)->count == 1);
    CHECK(hint_at(4)->block > 0 &&
          (hint_at(4)->block + hint_at(4)->count) * MIB >= stored_bytes(CODED));
    while (hints_given() < FAN_SESSION_HINTS)
        fan_hint(fan_file_get(coded_fd), 0, 1);
    fan_hint(fan_file_get(coded_fd), 0, 1);
    check_range(coded_fd, CODED, 0, CODED_BYTES);
    close_record(coded_fd);
    close_record(fd);
    check_no_pin_left();
}

/* A fork child has no session yet, and makes none for a hint; nor does anybody once the daemon is
 * gone. */
static void scenario_hints_of_nobody(void)
{
    int fd = open_record(LARGE);
    pid_t pid = fork_client();
    fan_hint(fan_file_get(fd), 0, 0);
    if (pid == 0) {
        CHECK(fan_session_now() == NULL);
        exit(0);
    }
    check_exit(pid);
    kill(daemon_pid, SIGKILL);
    while (fan_session_check(fan_session_now()))
        usleep(1000);
    fan_hint(fan_file_get(fd), 0, 0);
    check_range(fd, LARGE, 0, LARGE_BYTES);
    close_record(fd);
}

int main(void)
{
    begin();
    run("many", scenario_many, (struct control){.entries = 20, .patience = 2, .evict_always = true});
    run("pieces", scenario_many,
        (struct control){.entries = 20, .patience = 1, .evict_always = true, .piecemeal = true});
    run("race", scenario_race,
        (struct control){.entries = 1, .evict_always = true, .sleepless = true});
    run("forgotten", scenario_forgotten,
        (struct control){.entries = 8, .sleepless = true, .forget = true});
    run("tiny", scenario_tiny, (struct control){.entries = 1});
    run("hits", scenario_hits, (struct control){.entries = 12});
    run("errors", scenario_errors,
        (struct control){.entries = 8, .damaged_id = DAMAGED, .lost_id = LOST});
    run("damaged and lost", scenario_damaged_and_lost,
        (struct control){.entries = 8, .damaged_id = LARGE, .lost_id = LARGE});
    for (enum lie lie = LIE_ENTRY; lie <= LIE_FREED; lie++)
        run("lie", scenario_lie, (struct control){.entries = 8, .lie = lie});
    run("staged later", scenario_staged_later, (struct control){.entries = 8});
    run("hints", scenario_hints, (struct control){.entries = 12});
    run("hints of nobody", scenario_hints_of_nobody, (struct control){.entries = 12});
    run("no pin", scenario_no_pin, (struct control){.entries = 8});
    printf("test_remote: no fault\n");
    return 0;
}
