/*
 * Changes that programs make in the names segment: what they do and log, against each other, and
 * stopped after every single instruction: readers see what was before or after, and what can be
 * seen is in the log, so that it outlives whoever is killed there.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../csrc/changes/change.h"
#include "../../csrc/common/sys.h"
#include "../../csrc/names/follow.h"
#include "check.h"

/* The instructions of a sanitizer are many, and not ours. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { STRIDE = 1009 };
#else
enum { STRIDE = 7 };
#endif

enum { MOST = 8 << 20, THREADS = 3, ROUNDS = 4000, KILLS = 40, STEPS_MAX = 1 << 20 };

static struct fan_names_writer *writer;
static struct fan_names names;

static struct fan_output_attr directory = {.mode = S_IFDIR | 0755, .nlink = 2};

static void open_directory(const char *path)
{
    uint32_t bytes = (uint32_t)strlen(path);
    CHECK(fan_names_cover(writer, 0, path, bytes) == 0);
    fan_names_open_directory(writer, 0, path, bytes);
}

static void make(void)
{
    int file = memfd_create("names", MFD_CLOEXEC);
    CHECK(fan_names_open(dup(file), 0, 1, MOST, &writer) == 0);
    void *at = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(at != MAP_FAILED && fan_names_attach(&names, at, MOST) == 0);
    close(file);
    open_directory("");
    CHECK(fan_names_put(writer, 0, "d", 1, &directory, "", 0, false, 1) == 0);
    open_directory("d");
    fan_names_let(writer);
}

static void unmake(void)
{
    fan_names_close(writer);
    munmap(names.header, MOST);
}

static struct fan_changer self(void)
{
    return (struct fan_changer){
        .names = names, .thread = (uint32_t)FAN_SYS(gettid), .pid = (uint32_t)getpid()};
}

static struct fan_names_path at(const char *path)
{
    return (struct fan_names_path){0, path, strlen(path), 0};
}

static int look(const char *path, struct fan_output_attr *attr)
{
    char target[FAN_NAMES_PATH_MAX];
    struct fan_names_path named = at(path);
    return fan_names_look(&names, &named, false, attr, target, sizeof(target));
}

static int seen(const char *path)
{
    struct fan_output_attr attr;
    return look(path, &attr);
}

static int make_change(struct fan_wish *wish)
{
    struct fan_changer changer = self();
    return fan_change_make(&changer, wish);
}

static int create(const char *path, uint64_t *object)
{
    struct fan_wish wish = {
        .change = {.kind = FAN_CHANGE_CREATED, .attr = {.mode = S_IFREG | 0644}}, .path = at(path)};
    int rc = make_change(&wish);
    *object = wish.change.object;
    return rc;
}

static int publish(uint64_t object, uint64_t size)
{
    struct fan_wish wish = {
        .change = {.kind = FAN_CHANGE_PUBLISHED,
                   .object = object,
                   .attr = {.mode = S_IFREG | 0644, .size = size, .mtime_ns = (int64_t)size}}};
    return make_change(&wish);
}

static int put(const char *path, uint64_t size)
{
    uint64_t object;
    int rc = create(path, &object);
    return rc == 0 ? publish(object, size) : rc;
}

static int move(const char *from, const char *to, bool replace, uint64_t *gone)
{
    struct fan_wish wish = {
        .change.kind = FAN_CHANGE_MOVED, .path = at(from), .other = at(to), .replace = replace};
    int rc = make_change(&wish);
    *gone = wish.change.gone;
    return rc;
}

static int drop(const char *path, bool is_directory)
{
    struct fan_wish wish = {
        .change.kind = FAN_CHANGE_REMOVED, .path = at(path), .directory = is_directory};
    return make_change(&wish);
}

static bool half(const void *how, struct fan_output_attr *attr)
{
    attr->mode = (attr->mode & S_IFMT) | *(const unsigned *)how;
    attr->mtime_ns = 77;
    return *(const unsigned *)how != 0;
}

static int alter(const char *path, unsigned mode)
{
    struct fan_wish wish = {.change = {.kind = FAN_CHANGE_ALTERED, .object = 1},
                            .path = at(path),
                            .alter = half,
                            .how = &mode};
    return make_change(&wish);
}

static int make_directory(const char *path)
{
    struct fan_wish wish = {.change = {.kind = FAN_CHANGE_MADE, .attr = directory},
                            .path = at(path)};
    return make_change(&wish);
}

/* The kinds in the log that was not followed yet, and that all of it is whole. */
static unsigned logged(unsigned kinds[8])
{
    const char *log;
    uint64_t bytes = fan_names_log(writer, &log);
    unsigned count = 0;
    for (uint64_t done = 0; done < bytes; count++) {
        struct fan_change change;
        memcpy(&change, log + done, sizeof(change));
        CHECK(change.bytes >= sizeof(change) && change.bytes % 8 == 0);
        CHECK(change.kind >= FAN_CHANGE_CREATED && change.kind <= FAN_CHANGE_ALTERED);
        CHECK(change.path_bytes > 0 && change.bytes <= bytes - done);
        if (count < 8)
            kinds[count] = change.kind;
        done += change.bytes;
    }
    return count;
}

static void follow(void)
{
    const char *log;
    fan_names_followed(writer, fan_names_log(writer, &log));
}

static void test_what_they_do(void)
{
    struct fan_output_attr attr;
    uint64_t first, second, gone;
    unsigned kinds[8];
    make();
    CHECK(create("d/a", &first) == 0 && seen("d/a") == FAN_NAMES_ASK);
    CHECK(create("d/a", &second) == FAN_NAMES_ASK && put("none/a", 1) == FAN_NAMES_ASK);
    CHECK(drop("d/a", false) == FAN_NAMES_ASK && drop("d", true) == FAN_NAMES_ASK);
    CHECK(publish(first, 5) == 0 && publish(first, 5) == FAN_NAMES_ASK);
    CHECK(look("d/a", &attr) == 0 && attr.size == 5 && attr.object == first);
    CHECK(put("b", 6) == 0 && move("d/a", "b", false, &gone) == FAN_NAMES_ASK);
    CHECK(move("d/a", "b", true, &gone) == 0 && gone != 0 && gone != first);
    CHECK(look("b", &attr) == 0 && attr.size == 5 && seen("d/a") == -ENOENT);
    CHECK(make_directory("d/e") == 0 && make_directory("d/e") == FAN_NAMES_ASK);
    CHECK(put("d/e/f", 1) == 0 && drop("d/e", true) == FAN_NAMES_ASK);
    CHECK(drop("d/e/f", false) == 0 && drop("d/e", false) == FAN_NAMES_ASK);
    CHECK(drop("d/e", true) == 0 && seen("d/e") == -ENOENT && put("d/e/f", 1) == FAN_NAMES_ASK);
    CHECK(logged(kinds) == 10 && kinds[0] == FAN_CHANGE_CREATED && kinds[4] == FAN_CHANGE_MOVED);
    follow();
    CHECK(logged(kinds) == 0 && fan_names_sleep(writer));
    struct fan_changer changer = self();
    struct fan_wish wish = {.change.kind = FAN_CHANGE_REMOVED, .path = at("b")};
    CHECK(fan_change_make(&changer, &wish) == 0 && changer.wake && wish.change.gone == first);
    CHECK(!fan_names_sleep(writer) && make_directory("g") == 0);
    unmake();
}

/* Programs never stop, so that something is left to be followed each time: the log has room all the
 * same. Then as a daemon leaves it that dies after it has moved what was left. */
static void test_log_without_end(void)
{
    struct fan_change change;
    unsigned kinds[8];
    const char *log;
    make();
    for (unsigned i = 0; i < 4 * FAN_NAMES_LOG_BYTES / sizeof(change); i++) {
        CHECK(make_directory("d/e") == 0 && drop("d/e", true) == 0);
        uint64_t bytes = fan_names_log(writer, &log);
        memcpy(&change, log, sizeof(change));
        CHECK(change.kind == (i == 0 ? FAN_CHANGE_MADE : FAN_CHANGE_REMOVED));
        fan_names_followed(writer, bytes - change.bytes);
    }
    CHECK(logged(kinds) == 1 && kinds[0] == FAN_CHANGE_REMOVED);
    uint64_t bytes = fan_names_log(writer, &log), end = names.header->log_end;
    names.header->log_done = FAN_NAMES_LOG_BYTES / 2;
    memcpy((char *)names.header + FAN_NAMES_HEADER_BYTES, log, bytes);
    names.header->log_end = bytes;
    CHECK(end < FAN_NAMES_LOG_BYTES / 2);
    CHECK(fan_names_log_left(names.header, MOST, &log) == bytes);
    memcpy(&change, log, sizeof(change));
    CHECK(change.kind == FAN_CHANGE_REMOVED && change.bytes == bytes);
    unmake();
}

/* Of a directory its time holds, whatever was made in it before. */
static void test_attributes(void)
{
    struct fan_output_attr attr;
    uint64_t object;
    unsigned kinds[8];
    make();
    CHECK(put("d/a", 5) == 0 && create("d/b", &object) == 0);
    CHECK(alter("d/a", 0600) == 0 && look("d/a", &attr) == 0);
    CHECK(attr.mode == (S_IFREG | 0600) && attr.size == 5 && attr.mtime_ns == 77);
    CHECK(look("d", &attr) == 0 && attr.mtime_ns > 77);
    CHECK(alter("d", 0700) == 0 && look("d", &attr) == 0);
    CHECK(attr.mode == (S_IFDIR | 0700) && attr.mtime_ns == 77);
    CHECK(put("d/c", 1) == 0 && look("d", &attr) == 0 && attr.mtime_ns > 77);
    CHECK(alter("d/b", 0600) == FAN_NAMES_ASK && alter("d/none", 0600) == FAN_NAMES_ASK);
    CHECK(alter("d/a", 0) == FAN_NAMES_ASK && publish(object, 1) == 0);
    CHECK(logged(kinds) == 8 && kinds[3] == FAN_CHANGE_ALTERED);
    unmake();
}

static void test_when_they_ask(void)
{
    uint64_t object;
    make();
    CHECK(create("a", &object) == 0);
    fan_names_take_draft(writer, object);
    CHECK(publish(object, 1) == FAN_NAMES_ASK);
    fan_names_hold(writer);
    CHECK(put("b", 1) == FAN_NAMES_ASK);
    fan_names_let(writer);
    CHECK(put("b", 1) == 0);
    fan_names_begin_change(&names); /* another process asked for a change, and may be dead */
    CHECK(put("c", 1) == FAN_NAMES_ASK);
    fan_names_done(writer);
    char path[200];
    memset(path, 'x', sizeof(path));
    unsigned count = 0;
    for (int rc = 0; rc == 0; count++) {
        snprintf(path + 150, 50, "%u", count);
        rc = make_directory(path);
    }
    CHECK(count > 1000 && seen("b") == 0); /* until the log is full */
    follow();
    CHECK(make_directory(path) == 0);
    unmake();
}

static void *change_on(void *number)
{
    char path[64], other[64];
    uint64_t gone;
    for (unsigned i = 0; i < ROUNDS; i++) {
        snprintf(path, sizeof(path), "d/%lu-%u", (unsigned long)(uintptr_t)number, i % 7);
        snprintf(other, sizeof(other), "%lu", (unsigned long)(uintptr_t)number);
        put(path, i + 1);
        move(path, other, true, &gone);
        drop(path, false);
        alter("d", 0700 + i % 7);
        struct fan_output_attr attr;
        if (look(other, &attr) == 0)
            CHECK(attr.size == (uint64_t)attr.mtime_ns);
    }
    return NULL;
}

/* Threads change names, and the daemon follows, and writes, too, while they may not. */
static void test_against_each_other(void)
{
    pthread_t threads[THREADS];
    unsigned kinds[8];
    make();
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, change_on, (void *)i) == 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        logged(kinds);
        follow();
        if (i % 5 == 0) {
            fan_names_hold(writer);
            logged(kinds);
            fan_names_put(writer, 0, "own", 3, i % 2 != 0 ? &directory : NULL, "", 0, false, 1);
            fan_names_let(writer);
        }
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    unmake();
}

/* A process that is killed anywhere, also with `changer` in its hands: what it logged is whole, and
 * whoever comes later changes names or is told to ask. */
static void test_killed(void)
{
    unsigned kinds[8];
    for (unsigned i = 0; i < KILLS; i++) {
        make();
        pid_t pid = fork();
        if (pid == 0)
            for (;;) {
                change_on((void *)(uintptr_t)i);
            }
        while (logged(kinds) == 0)
            usleep(100);
        usleep(i * 37 % 1000);
        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
        fan_names_hold(writer);
        logged(kinds);
        fan_names_let(writer);
        follow();
        int rc = put("after", 1), there = seen("after");
        CHECK(rc == 0 ? there == 0 : there == FAN_NAMES_ASK);
        unmake();
    }
}

/* Waits until a stopped process is to be stepped further. false: it has ended. */
static bool step(pid_t pid)
{
    int status;
    CHECK(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSTOPPED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return WIFSTOPPED(status);
}

/* A child that stops before it calls `act`. -1: nobody may be traced here. */
static pid_t stopped(void (*act)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        raise(SIGSTOP);
        act();
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFSTOPPED(status) ? pid : -1;
}

static void rename_it(void)
{
    uint64_t gone;
    if (move("d/a", "b", true, &gone) != 0)
        _exit(1);
}

/* After each instruction of a rename by another process: who looks sees none of it or all of it,
 * never goes back, and sees nothing that is not in the log. */
static void test_each_step_of_a_change(void)
{
    struct fan_output_attr attr;
    unsigned kinds[8], steps = 0, asks = 0;
    bool after = false;
    make();
    CHECK(put("d/a", 5) == 0 && put("b", 6) == 0);
    follow();
    pid_t pid = stopped(rename_it);
    if (pid < 0) {
        unmake();
        return;
    }
    for (; step(pid) && steps < STEPS_MAX; steps++) {
        int old = seen("d/a"), new = look("b", &attr);
        unsigned count = logged(kinds);
        asks += new == FAN_NAMES_ASK;
        if (old == FAN_NAMES_ASK || new == FAN_NAMES_ASK)
            continue;
        CHECK(new == 0 && (attr.size == 5 ? old == -ENOENT : attr.size == 6 && old == 0));
        CHECK(attr.size == 5 || !after);
        after = attr.size == 5;
        CHECK(!after || (count == 1 && kinds[0] == FAN_CHANGE_MOVED));
    }
    CHECK(after && asks > 0 && steps > 100);
    unmake();
}

static void look_at_it(void)
{
    struct fan_output_attr attr;
    int rc = look("b", &attr);
    bool whole = rc == 0 && attr.size == (uint64_t)attr.mtime_ns && attr.object != 0;
    if (!whole && rc != FAN_NAMES_ASK)
        _exit(1);
}

/* One look, which goes on after so many instructions, when the name was replaced as a whole. The
 * instructions that it has; 0: nobody may be traced here. */
static unsigned look_with_a_change_after(unsigned instructions, const char *replacement)
{
    uint64_t gone;
    int status;
    unsigned done = 0;
    CHECK(put(replacement, instructions + 7) == 0);
    pid_t pid = stopped(look_at_it);
    while (pid >= 0 && done < instructions && step(pid))
        done++;
    CHECK(move(replacement, "b", true, &gone) == 0);
    follow();
    if (pid < 0 || done < instructions)
        return done;
    CHECK(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return instructions + 1;
}

/* Between the instructions of a look the name is replaced as a whole: it is seen whole. */
static void test_steps_of_a_look(void)
{
    make();
    CHECK(put("b", 6) == 0);
    for (unsigned at_step = 0; look_with_a_change_after(at_step, "d/a") > at_step;)
        at_step += STRIDE;
    unmake();
}

int main(void)
{
    test_what_they_do();
    test_log_without_end();
    test_attributes();
    test_when_they_ask();
    test_against_each_other();
    test_killed();
    test_each_step_of_a_change();
    test_steps_of_a_look();
    return 0;
}
