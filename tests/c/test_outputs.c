/*
 * Outputs in the client code without the preload, against a daemon that only pretends: which names
 * are asked about, what an open file stands for, and what the daemon is told of a process's life.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../../csrc/client/handoff/process.h"
#include "../../csrc/client/open/dirstream.h"
#include "../../csrc/client/open/open.h"
#include "../../csrc/client/open/stat.h"
#include "../../csrc/client/outputs/outputs.h"
#include "../../tools/fuzz/tree.h"
#include "fake_outputs.h"

enum { THREADS = 4, ROUNDS = 40, CAPACITY = 1 << 18, LIMIT_S = 120 };

/* Longer than a socket address holds. */
#define DIRECTORY                                                                                  \
    "test-outputs-job-with-a-name-that-is-longer-than-the-address-of-a-socket-can-hold-which-is-"  \
    "not-much-more-than-a-hundred-bytes-in-all"

static struct outputs_control *control;

/* open(2) as the preload wraps it. */
static int open_path(const char *path, int flags)
{
    struct fan_target target;
    if (!fan_locate(AT_FDCWD, path, fan_open_resolve(flags), &target))
        return -EXDEV;
    return fan_open(&target, flags, 0640);
}

static int settle_fd(int fd)
{
    fan_file_remove(fd);
    CHECK(close(fd) == 0);
    return fan_output_settle();
}

static void close_fd(int fd)
{
    CHECK(settle_fd(fd) == 0);
}

static enum fan_where locate(const char *path, unsigned flags, struct fan_target *target)
{
    return fan_locate(AT_FDCWD, path, flags, target) ? target->where : FAN_OUTSIDE;
}

static unsigned asked_so_far(void)
{
    return atomic_load(&control->count);
}

/* The last question, which must be this one of this process. */
static const struct asked *last_asked(enum fan_output_op op)
{
    CHECK(asked_so_far() > 0);
    const struct asked *asked = &control->calls[asked_so_far() - 1];
    CHECK(asked->op == op && asked->pid == getpid());
    return asked;
}

/* Sets the bit of the directory that holds the path's last name. */
static void touch(const char *path)
{
    struct fan_target target;
    CHECK(fan_locate(AT_FDCWD, path, FAN_CHANGE, &target) && target.where == FAN_BEYOND);
    atomic_fetch_or(&target.view->touched[target.id / 64], UINT64_C(1) << (target.id % 64));
}

static int make(const char *path)
{
    touch(path);
    int fd = open_path(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && fan_file_get(fd) != NULL && fan_file_get(fd)->kind == FAN_FILE_OUTPUT);
    return fd;
}

static uint64_t object_of(int fd)
{
    return fan_file_get(fd)->id;
}

#define P JOBDIR_PREFIX "/dir1/"

/* A file from its making to its being read. */
static void scenario_one_file(void)
{
    char text[10];
    struct stat st, open_st;
    struct fan_target target;
    int fd = make(P "made");
    uint64_t object = object_of(fd);
    CHECK(write(fd, "content", 7) == 7);
    CHECK(locate(P "made", 0, &target) == FAN_MISSING && target.error == ENOENT);
    CHECK(fan_stat_file(fd, fan_file_get(fd), &open_st) == 0);
    close_fd(fd);
    CHECK(last_asked(FAN_OUTPUT_SETTLE)->objects[0] == object);
    CHECK(locate(P "made", 0, &target) == FAN_OUTPUT && strcmp(target.path, "dir1/made") == 0);
    CHECK(fan_stat(&target, &st) == 0 && st.st_size == 7 && (st.st_mode & 0777) == 0640);
    CHECK(st.st_ino == open_st.st_ino && st.st_dev == open_st.st_dev);
    CHECK(st.st_dev == fan_job.views[0].device);
    fd = open_path(P "made", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof(text)) == 7 && memcmp(text, "content", 7) == 0);
    unsigned before = asked_so_far();
    close_fd(fd);
    CHECK(asked_so_far() == before);
}

/* Nothing is asked about inputs, and about missing names only where an output was made. */
static void scenario_who_is_asked(void)
{
    struct fan_target target;
    CHECK(locate(P "file8", 0, &target) == FAN_INPUT);
    CHECK(locate(P "no", 0, &target) == FAN_MISSING && target.creatable);
    CHECK(locate(P "no/no", FAN_DEFER, &target) == FAN_MISSING && !target.creatable);
    CHECK(locate(P "no/no", FAN_CHANGE, &target) == FAN_BEYOND && !target.creatable);
    CHECK(strcmp(target.path, "dir1/no/no") == 0);
    CHECK(locate(P "file8/no", FAN_CHANGE, &target) == FAN_MISSING && target.error == ENOTDIR);
    CHECK(locate(JOBDIR_PREFIX "/no//../x/", FAN_CHANGE, &target) == FAN_BEYOND && target.slash);
    CHECK(strcmp(target.path, "no//../x/") == 0 && target.id == 0);
    CHECK(asked_so_far() == 0);
    touch(P "no");
    CHECK(locate(P "no", FAN_DEFER, &target) == FAN_BEYOND && asked_so_far() == 0);
    CHECK(locate(P "no", 0, &target) == FAN_MISSING && asked_so_far() == 1);
    last_asked(FAN_OUTPUT_LOOKUP);
    CHECK(locate(P "file8", 0, &target) == FAN_INPUT);
    CHECK(locate(JOBDIR_PREFIX "/dir2/no", 0, &target) == FAN_MISSING && asked_so_far() == 1);
}

/* Where links among the outputs lead. */
static void scenario_elsewhere(void)
{
    struct fan_target target;
    touch(P "made");
    CHECK(locate(P "to-input", 0, &target) == FAN_INPUT && target.record->mode != 0);
    CHECK(locate(P "to-itself", 0, &target) == FAN_MISSING && target.error == ELOOP);
    CHECK(locate(P "to-outside", 0, &target) == FAN_OUTSIDE);
    CHECK(strcmp(target.path, "/dev/null") == 0);
    CHECK(open_path(P "to-itself", O_RDONLY) == -ELOOP);
    CHECK(open_path(P "to-input", O_WRONLY) == -EROFS);
    int fd = open_path(P "to-outside", O_WRONLY);
    CHECK(fd >= 0 && fan_file_get(fd) == NULL && write(fd, "x", 1) == 1 && close(fd) == 0);
    fd = open_path(P "to-input", O_RDONLY);
    CHECK(fd >= 0 && fan_file_get(fd)->kind == FAN_FILE_REGULAR);
    close_fd(fd);
    fd = open_path(P "to-output", O_WRONLY | O_CREAT);
    CHECK(fd >= 0 && fan_file_get(fd)->kind == FAN_FILE_OUTPUT);
    close_fd(fd);
    CHECK(locate(P "to-output", 0, &target) == FAN_OUTPUT);
}

/* It is the last of several descriptors that counts. */
static void scenario_descriptors(void)
{
    int fd = make(P "many");
    uint64_t object = object_of(fd);
    int copy = dup(fd), again = open_path(P "many", O_WRONLY);
    CHECK(copy >= 0 && again >= 0 && object_of(again) == object);
    CHECK(fan_file_share(copy, fan_file_get(fd)) == 0);
    unsigned before = asked_so_far();
    close_fd(fd);
    close_fd(again);
    CHECK(asked_so_far() == before);
    close_fd(copy);
    CHECK(asked_so_far() == before + 1);
    const struct asked *asked = last_asked(FAN_OUTPUT_SETTLE);
    CHECK(asked->object_count == 1 && asked->objects[0] == object);
    fan_output_at_exit();
    CHECK(asked_so_far() == before + 1);
}

/* Opened past the table, by /proc: another descriptor of the same output. */
static void scenario_proc(void)
{
    char path[40];
    int fd = make(P "proc");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK(open_path(path, O_WRONLY) == -EXDEV);
    int again = open(path, O_WRONLY);
    fan_output_reopened(again, path, O_WRONLY);
    CHECK(object_of(again) == object_of(fd));
    unsigned before = asked_so_far();
    close_fd(fd);
    CHECK(asked_so_far() == before);
    close_fd(again);
    CHECK(asked_so_far() == before + 1);
}

/* Many closed at once: told at once, and more than are noted one by one. */
static void scenario_many_at_once(void)
{
    enum { MANY = 100 };
    int fds[MANY];
    char path[64];
    for (int i = 0; i < MANY; i++) {
        snprintf(path, sizeof(path), P "at-once-%d", i);
        fds[i] = make(path);
    }
    unsigned before = asked_so_far();
    for (int i = 0; i < 10; i++)
        fan_file_remove(fds[i]);
    fan_output_settle();
    CHECK(asked_so_far() == before + 1 && last_asked(FAN_OUTPUT_SETTLE)->object_count == 10);
    for (int i = 10; i < MANY; i++)
        fan_file_remove(fds[i]);
    fan_output_settle();
    CHECK(asked_so_far() == before + 2 && last_asked(FAN_OUTPUT_SETTLE)->object_count == 0);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
}

static void check_child(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static pid_t fork_client(void)
{
    fan_file_before_fork();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        fan_process_after_fork_child();
    return pid;
}

/* A child holds what it inherits, and each of the two tells of its own end. */
static void scenario_fork(void)
{
    unsigned before = asked_so_far();
    pid_t child = fork_client();
    if (child == 0)
        _exit(asked_so_far() == before ? 0 : 1);
    check_child(child);
    int fd = make(P "forked");
    uint64_t object = object_of(fd);
    child = fork_client();
    if (child == 0) {
        const struct asked *held = last_asked(FAN_OUTPUT_HOLD);
        CHECK(held->object_count == 1 && held->objects[0] == object);
        fan_output_at_exit();
        CHECK(last_asked(FAN_OUTPUT_LEAVE)->object_count == 0);
        _exit(0);
    }
    check_child(child);
    control->open_yet = true; /* another child writes to it */
    close_fd(fd);
    CHECK(last_asked(FAN_OUTPUT_SETTLE)->objects[0] == object);
    before = asked_so_far();
    child = fork_client();
    if (child == 0)
        _exit(asked_so_far() == before ? 0 : 1);
    check_child(child);
}

/* What can be changed still although it is closed is left at the end. */
static void scenario_open_yet(void)
{
    int fd = make(P "mapped");
    control->open_yet = true;
    close_fd(fd);
    last_asked(FAN_OUTPUT_SETTLE);
    fan_output_at_exit();
    CHECK(last_asked(FAN_OUTPUT_LEAVE)->object_count == 0);
    fd = open_path(P "mapped", O_WRONLY);
    CHECK(fd >= 0);
    control->open_yet = false;
    close_fd(fd);
    unsigned before = asked_so_far();
    fan_output_at_exit();
    CHECK(asked_so_far() == before);
}

/* Before exec: what goes on to the new program, what ends here. */
static void scenario_exec(void)
{
    int kept = make(P "kept"), closed = make(P "closed"), mapped = make(P "lingering");
    int twin = dup(kept);
    uint64_t objects[] = {object_of(kept), object_of(closed), object_of(mapped)};
    CHECK(fan_file_share(twin, fan_file_get(kept)) == 0); /* no FD_CLOEXEC */
    control->open_yet = true;
    close_fd(mapped);
    fan_output_before_exec();
    const struct asked *asked = last_asked(FAN_OUTPUT_LEAVE);
    CHECK(asked->object_count == 2);
    CHECK(asked->objects[0] == objects[1] && asked->objects[1] == objects[2]);
    CHECK(asked[-1].op == FAN_OUTPUT_HAND_ON && asked[-1].object_count == 1);
    CHECK(asked[-1].objects[0] == objects[0]);
    fan_output_after_failed_exec();
    CHECK(last_asked(FAN_OUTPUT_HOLD)->object_count == 4); /* two descriptors of one */
}

/* The open that was allowed fails. */
static void scenario_abandon(void)
{
    touch(P "x");
    control->lie = OUTPUTS_GONE;
    CHECK(open_path(P "abandoned", O_CREAT | O_WRONLY) == -EIO);
    CHECK(last_asked(FAN_OUTPUT_ABANDON)->object_count == 1);
    unsigned before = asked_so_far();
    CHECK(open_path(P "abandoned", O_RDONLY) == -ESTALE);
    CHECK(asked_so_far() == before + 100);
    fan_output_at_exit();
    CHECK(asked_so_far() == before + 100);
}

/* How often `name` is in the directory. -1: an error; `count`: all names. */
static int listed(const char *path, const char *name, unsigned *count)
{
    struct fan_target target;
    int error, found = 0;
    struct dirent *entry;
    CHECK(fan_locate(AT_FDCWD, path, 0, &target));
    struct fan_dirstream *stream = fan_dirstream_open(&target, &error);
    if (stream == NULL)
        return -1;
    *count = 0;
    while ((entry = fan_dirstream_read(stream, &error)) != NULL) {
        found += strcmp(entry->d_name, name) == 0;
        (*count)++;
    }
    fan_dirstream_close(stream);
    return error != 0 ? -1 : found;
}

static void scenario_listing(void)
{
    unsigned inputs, all;
    CHECK(listed(JOBDIR_PREFIX "/dir2", "file20", &inputs) >= 0 && asked_so_far() == 0);
    CHECK(listed(JOBDIR_PREFIX "/dir1", "..", &inputs) == 1);
    close_fd(make(P "one"));
    close_fd(make(P "another-name-of-some-length"));
    CHECK(listed(JOBDIR_PREFIX "/dir1", "one", &all) == 1 && all == inputs + 2);
    CHECK(listed(JOBDIR_PREFIX "/dir1", "another-name-of-some-length", &all) == 1);
    control->lie = OUTPUTS_NAME;
    CHECK(listed(JOBDIR_PREFIX "/dir1", "one", &all) == -1);
    control->lie = OUTPUTS_NAME_BYTES;
    CHECK(listed(JOBDIR_PREFIX "/dir1", "one", &all) == -1);
    control->lie = OUTPUTS_LONG; /* as of a daemon that is gone: the inputs alone are listed */
    CHECK(listed(JOBDIR_PREFIX "/dir1", "one", &all) == 0 && all == inputs);
}

/* A stream seeks, and is rewound onto what there is by then. */
static void scenario_rewind(void)
{
    struct fan_target target;
    int error;
    unsigned inputs, all = 0;
    close_fd(make(P "first"));
    CHECK(listed(JOBDIR_PREFIX "/dir1", ".", &inputs) == 1);
    CHECK(fan_locate(AT_FDCWD, JOBDIR_PREFIX "/dir1", 0, &target));
    struct fan_dirstream *stream = fan_dirstream_open(&target, &error);
    close_fd(make(P "second"));
    while (fan_dirstream_read(stream, &error) != NULL)
        all++;
    CHECK(all == inputs && fan_dirstream_tell(stream) == (long)all);
    fan_dirstream_seek(stream, (long)inputs - 1);
    CHECK(strcmp(fan_dirstream_read(stream, &error)->d_name, "first") == 0);
    fan_dirstream_rewind(stream);
    for (all = 0; fan_dirstream_read(stream, &error) != NULL;)
        all++;
    CHECK(all == inputs + 1);
    fan_dirstream_close(stream);
}

/* getdents64 by small pieces: each name once, whatever comes in between. */
static void scenario_getdents(void)
{
    char buffer[64], path[64];
    struct fan_target target;
    unsigned all = 0, inputs;
    CHECK(listed(JOBDIR_PREFIX "/dir1", ".", &inputs) == 1);
    for (int i = 0; i < 10; i++) {
        snprintf(path, sizeof(path), P "entry-%d", i);
        close_fd(make(path));
    }
    CHECK(fan_locate(AT_FDCWD, JOBDIR_PREFIX "/dir1", 0, &target));
    int fd = fan_open(&target, O_RDONLY | O_DIRECTORY, 0);
    CHECK(fd >= 0);
    for (;;) {
        ssize_t got = fan_getdents(fd, fan_file_get(fd), buffer, sizeof(buffer));
        CHECK(got >= 0);
        if (got == 0)
            break;
        for (ssize_t at = 0; at < got; all++)
            at += ((struct dirent *)(void *)(buffer + at))->d_reclen;
        if (all == inputs + 2)
            close_fd(make(P "entry-in-between"));
    }
    CHECK(all == inputs + 10);
    close_fd(fd);
}

/* A daemon that is not to be trusted, or not there. */
static void scenario_lies(void)
{
    static const enum output_lie lies[] = {OUTPUTS_MAGIC,  OUTPUTS_ERRNO, OUTPUTS_LONG,
                                           OUTPUTS_SILENT, OUTPUTS_HALF,  OUTPUTS_WHERE};
    struct fan_target target;
    close_fd(make(P "truth"));
    for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        control->lie = lies[i];
        CHECK(locate(P "truth", 0, &target) == FAN_MISSING && target.error == EIO);
        CHECK(open_path(P "truth", O_RDONLY) == -EIO);
        CHECK(open_path(P "new", O_WRONLY | O_CREAT) == -EIO);
    }
    control->lie = OUTPUTS_HONEST;
    control->in_pieces = true;
    CHECK(locate(P "truth", 0, &target) == FAN_OUTPUT);
}

static void scenario_no_daemon(void)
{
    struct fan_target target;
    int fd = make(P "orphan");
    CHECK(unlink(DIRECTORY "/outputs") == 0);
    CHECK(locate(P "orphan", 0, &target) == FAN_MISSING && target.error == EIO);
    CHECK(open_path(P "other", O_WRONLY | O_CREAT) == -EIO);
    CHECK(locate(P "file8", 0, &target) == FAN_INPUT);
    CHECK(settle_fd(fd) == -EIO && fan_output_settle() == 0);
}

/* No descriptor is left to ask with. */
static void scenario_no_descriptor(void)
{
    struct rlimit limit;
    touch(P "none");
    int lowest = dup(0);
    CHECK(lowest >= 0 && close(lowest) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    struct rlimit none = {(rlim_t)lowest, limit.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(open_path(P "none", O_WRONLY | O_CREAT) == -EMFILE);
    CHECK(open_path(P "none", O_RDONLY) == -EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void *write_about(void *argument)
{
    char path[64], text[16];
    struct fan_target target;
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(path, sizeof(path), P "of-%d-%d", (int)(intptr_t)argument, i);
        int fd = make(path);
        CHECK(write(fd, path, strlen(path)) == (ssize_t)strlen(path));
        close_fd(fd);
        CHECK(locate(path, 0, &target) == FAN_OUTPUT && target.attr.size == strlen(path));
        fd = open_path(path, O_RDONLY);
        CHECK(fd >= 0 && read(fd, text, 10) == 10 && memcmp(text, path, 10) == 0);
        close_fd(fd);
    }
    return NULL;
}

static void scenario_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, write_about, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    unsigned before = asked_so_far();
    fan_output_at_exit();
    CHECK(asked_so_far() == before);
}

static void run(const char *name, void (*scenario)(void))
{
    int status;
    memset(control, 0, sizeof(*control));
    CHECK(system("rm -rf " DIRECTORY "/objects && mkdir -p " DIRECTORY "/objects/0") == 0);
    int listener = outputs_listen(DIRECTORY);
    pid_t daemon_pid = fork();
    if (daemon_pid == 0)
        outputs_run(control, DIRECTORY, listener);
    close(listener);
    pid_t pid = fork_client();
    if (pid == 0) {
        alarm(LIMIT_S);
        scenario();
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    kill(daemon_pid, SIGKILL);
    CHECK(waitpid(daemon_pid, NULL, 0) == daemon_pid);
    memset((void *)fan_job.views[0].touched, 0, fan_job.views[0].record_count / 8 + 1);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fprintf(stderr, "scenario %s failed (%d)\n", name, status);
    CHECK(status == 0);
}

int main(void)
{
    static uint8_t index[CAPACITY] __attribute__((aligned(64)));
    size_t bytes = tree_fill((struct tree_shape){3, 12, false}, index, CAPACITY);
    CHECK(bytes > 0);
    jobdir_attach(DIRECTORY, index, bytes, TREE_PACK_BYTES);
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    CHECK(control != MAP_FAILED);
    run("one file", scenario_one_file);
    run("who is asked", scenario_who_is_asked);
    run("elsewhere", scenario_elsewhere);
    run("descriptors", scenario_descriptors);
    run("proc", scenario_proc);
    run("many at once", scenario_many_at_once);
    run("fork", scenario_fork);
    run("open yet", scenario_open_yet);
    run("exec", scenario_exec);
    run("abandon", scenario_abandon);
    run("listing", scenario_listing);
    run("rewind", scenario_rewind);
    run("getdents", scenario_getdents);
    run("lies", scenario_lies);
    run("no daemon", scenario_no_daemon);
    run("no descriptor", scenario_no_descriptor);
    run("threads", scenario_threads);
    printf("test_outputs: no fault\n");
    return 0;
}
