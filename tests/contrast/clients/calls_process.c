/* Processes, threads and signals: what a new process has, and reads that are torn away. */
#include "calls.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>

extern char **environ;

static char *argument(const char *text)
{
    return (char *) text;
}

CASE(fork_reads_and_writes)
{
    int fd = reader("lines"), out = open(in_d("f"), O_RDWR | O_CREAT | O_APPEND, 0644);
    for (int i = 0; i < 3; i++) {
        IN_CHILD("child", show_next("next", fd); OK(write(out, "child ", 6) == 6));
    }
    TELL(lseek(fd, 0, SEEK_CUR));
    OK(write(out, "parent", 6) == 6 && close(out) == 0);
    show_path("f", in_d("f"));
}

CASE(fork_of_many_children)
{
    pid_t children[8];
    fflush(NULL);
    for (int i = 0; i < 8; i++) {
        if ((children[i] = fork()) == 0) {
            char name[40];
            snprintf(name, sizeof(name), "f%d", i);
            put(in_d(name), "child");
            struct stat status;
            _exit(stat(in_r("mid.bin"), &status) == 0 && status.st_size == 200003 ? 0 : 1);
        }
    }
    for (int i = 0; i < 8; i++) {
        show_end("child", children[i]);
    }
}

CASE(vfork_child_executes)
{
    int fd = reader("small"), out = open(in_d("f"), O_WRONLY | O_CREAT, 0644);
    pid_t child = vfork();
    if (child == 0) {
        dup2(fd, 0);
        dup2(out, 1);
        execl("/bin/cat", "cat", NULL);
        _exit(9);
    }
    show_end("child", child);
    TELL(close(out));
    show_path("f", in_d("f"));
    show_next("parent", fd);
}

CASE(vfork_child_closes_and_exits)
{
    int fd = reader("small");
    pid_t child = vfork();
    if (child == 0) {
        close(fd);
        _exit(3);
    }
    show_end("child", child);
    show_next("parent", fd);
}

CASE(clone_shares_nothing)
{
    int fd = reader("small");
    fflush(NULL);
    pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        show_next("child", fd);
        fflush(NULL);
        _exit(0);
    }
    show_end("child", child);
    show_next("parent", fd);
}

static pid_t spawned(posix_spawn_file_actions_t *actions, const char *program, char **argv)
{
    pid_t child = -1;
    fflush(NULL);
    int code = posix_spawn(&child, program, actions, NULL, argv, environ);
    if (code != 0) {
        SHOW("spawn %s", strerrorname_np(code));
    }
    return child;
}

CASE(spawn_opens_and_closes)
{
    char *argv[] = {"sh", "-c", "cat; cat <&7; echo out; echo err >&2", NULL};
    posix_spawn_file_actions_t actions;
    int fd = reader("x");
    posix_spawn_file_actions_init(&actions);
    TELL_CODE(posix_spawn_file_actions_addopen(&actions, 0, in_r("small"), O_RDONLY, 0));
    TELL_CODE(posix_spawn_file_actions_addopen(&actions, 1, in_d("out"), O_WRONLY | O_CREAT | O_TRUNC, 0640));
    TELL_CODE(posix_spawn_file_actions_adddup2(&actions, 1, 2));
    TELL_CODE(posix_spawn_file_actions_adddup2(&actions, fd, 7));
    TELL_CODE(posix_spawn_file_actions_addclose(&actions, fd));
    TELL_CODE(posix_spawn_file_actions_addclose(&actions, -1));
    show_end("sh", spawned(&actions, "/bin/sh", argv));
    posix_spawn_file_actions_destroy(&actions);
    show_path("out", in_d("out"));
    show_next("parent", fd);
}

CASE(spawn_changes_directory)
{
    char *argv[] = {"sh", "-c", "cat inner; cat ../small; pwd | sed 's|.*/||'", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    TELL_CODE(posix_spawn_file_actions_addchdir_np(&actions, in_r("sub")));
    show_end("sh", spawned(&actions, "/bin/sh", argv));
    posix_spawn_file_actions_init(&actions);
    TELL_CODE(posix_spawn_file_actions_addfchdir_np(&actions, open(in_r("sub"), O_RDONLY)));
    show_end("sh", spawned(&actions, "/bin/sh", argv));
    posix_spawn_file_actions_init(&actions);
    TELL_CODE(posix_spawn_file_actions_addchdir_np(&actions, in_r("none")));
    SHOW("none: %d", spawned(&actions, "/bin/sh", argv) > 0);
}

CASE(spawn_relative_open_after_chdir)
{
    char *argv[] = {"cat", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, in_r("sub"));
    posix_spawn_file_actions_addopen(&actions, 0, "deep/leaf", O_RDONLY, 0);
    show_end("cat", spawned(&actions, "/bin/cat", argv));
}

CASE(spawn_failures)
{
    char *argv[] = {"x", NULL};
    pid_t child;
    posix_spawn_file_actions_t actions;
    TELL_CODE(posix_spawn(&child, in_r("none"), NULL, NULL, argv, environ));
    TELL_CODE(posix_spawn(&child, in_r("sub"), NULL, NULL, argv, environ));
    TELL_CODE(posix_spawn(&child, in_r("programs/not_executable"), NULL, NULL, argv, environ));
    TELL_CODE(posix_spawnp(&child, "no_such_program_at_all", NULL, NULL, argv, environ));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, in_r("none"), O_RDONLY, 0);
    TELL_CODE(posix_spawn(&child, "/bin/true", &actions, NULL, argv, environ));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, 999, 5);
    TELL_CODE(posix_spawn(&child, "/bin/true", &actions, NULL, argv, environ));
}

CASE(spawn_closefrom)
{
    char *argv[] = {"sh", "-c", "cat <&5 2>/dev/null; echo $?; cat <&4", NULL};
    posix_spawn_file_actions_t actions;
    OK(dup2(reader("small"), 4) == 4 && dup2(4, 5) == 5);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclosefrom_np(&actions, 5);
    show_end("sh", spawned(&actions, "/bin/sh", argv));
}

static void run(const char *label, void (*how)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        how();
        dprintf(1, "%s: %s\n", label, strerrorname_np(errno));
        _exit(70);
    }
    show_end(label, child);
}

#define RUNS(NAME, ...)                                                                            \
    static void NAME(void)                                                                         \
    {                                                                                              \
        char *argv[] = {"program", "one", "two", NULL};                                            \
        (void) argv;                                                                               \
        __VA_ARGS__;                                                                               \
    }

RUNS(by_execve, execve(in_r("programs/script"), argv, environ))
RUNS(by_execv, execv(in_r("programs/script"), argv))
RUNS(by_execl, execl(in_r("programs/script"), "p", "one", "two", NULL))
RUNS(by_execle, execle(in_r("programs/script"), "p", "one", "two", NULL, environ))
RUNS(by_execvp, setenv("PATH", in_r("programs"), 1); execvp("script", argv))
RUNS(by_execlp, setenv("PATH", in_r("programs"), 1); execlp("script", "p", "one", "two", NULL))
RUNS(by_execvpe, setenv("PATH", in_r("programs"), 1); execvpe("script", argv, environ))
RUNS(by_fexecve, fexecve(reader("programs/script"), argv, environ))
RUNS(by_execveat, int dir = open(in_r("programs"), O_RDONLY); syscall(SYS_execveat, dir, "script", argv, environ, 0))
RUNS(by_empty_path, syscall(SYS_execveat, reader("programs/echo"), "", argv, environ, AT_EMPTY_PATH))
RUNS(by_syscall, syscall(SYS_execve, in_r("programs/script"), argv, environ))

CASE(exec_of_each_kind)
{
    run("execve", by_execve);
    run("execv", by_execv);
    run("execl", by_execl);
    run("execle", by_execle);
    run("execvp", by_execvp);
    run("execlp", by_execlp);
    run("execvpe", by_execvpe);
    run("fexecve", by_fexecve);
    run("execveat", by_execveat);
    run("execveat of a descriptor", by_empty_path);
    run("syscall", by_syscall);
}

RUNS(with_argument, execv(in_r("programs/with_argument"), argv))
RUNS(nested, OK(chdir(in_r("")) == 0); execv("programs/nested", argv))
RUNS(nested_elsewhere, execv(in_r("programs/nested"), argv))
RUNS(no_interpreter, execv(in_r("programs/no_interpreter"), argv))
RUNS(not_executable, execv(in_r("programs/not_executable"), argv))
RUNS(a_directory, execv(in_r("sub"), argv))
RUNS(a_missing_one, execv(in_r("none"), argv))
RUNS(below_a_file, execv(in_r("small/x"), argv))
RUNS(plain_text, execv(in_r("programs/plain_text"), argv))
RUNS(plain_text_by_path, setenv("PATH", in_r("programs"), 1); execvp("plain_text", argv))
RUNS(a_binary, execv(in_r("programs/echo"), argv))
RUNS(an_empty_file, chmod(in_d("e"), 0755); execv(in_d("e"), argv))
RUNS(a_link, execv(in_r("up/read/programs/script"), argv))

CASE(exec_of_scripts_and_failures)
{
    run("with an argument", with_argument);
    run("nested", nested);
    run("nested elsewhere", nested_elsewhere);
    run("no interpreter", no_interpreter);
    run("not executable", not_executable);
    run("a directory", a_directory);
    run("missing", a_missing_one);
    run("below a file", below_a_file);
    run("plain text", plain_text);
    run("plain text by path", plain_text_by_path);
    run("a binary", a_binary);
    put(in_d("e"), "");
    run("empty", an_empty_file);
}

RUNS(without_environment, char *none[] = {NULL};
     char *cat[] = {"cat", argument(in_r("small")), NULL}; execve("/bin/cat", cat, none))
RUNS(by_env_i, execl("/usr/bin/env", "env", "-i", "/bin/cat", in_r("small"), NULL))
RUNS(without_preload, unsetenv("LD_PRELOAD"); execl("/bin/cat", "cat", in_r("small"), NULL))
RUNS(cleared, clearenv(); execl("/bin/cat", "cat", in_r("small"), NULL))
RUNS(writes_without_environment, char *none[] = {NULL}; char text[PATH_MAX];
     snprintf(text, sizeof(text), "echo emptied > %s; cat %s", in_d("f"), in_r("x"));
     char *sh[] = {"sh", "-c", text, NULL}; execve("/bin/sh", sh, none))

CASE(cleaned_environments)
{
    run("no environment", without_environment);
    run("env -i", by_env_i);
    run("no LD_PRELOAD", without_preload);
    run("clearenv", cleared);
    run("writes", writes_without_environment);
    show_path("f", in_d("f"));
}

CASE(exec_keeps_and_closes_descriptors)
{
    char text[200];
    int kept = reader("lines"), closed = open(in_r("small"), O_RDONLY | O_CLOEXEC);
    OK(lseek(kept, 23, SEEK_SET) == 23);
    snprintf(text, sizeof(text), "head -c 23 <&%d; cat <&%d; echo $?", kept, closed);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", text, NULL);
    }
    show_end("sh", child);
    SHOW("moved on %d", lseek(kept, 0, SEEK_CUR) > 23);
}

CASE(daemonised_writer)
{
    int pair[2];
    char byte;
    OK(pipe(pair) == 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            setsid();
            OK(daemon(0, 0) == 0);
            put(in_d("f"), "by the daemon");
            struct stat status;
            OK(stat(in_r("small"), &status) == 0);
            write(pair[1], "x", 1);
            _exit(0);
        }
        _exit(0);
    }
    show_end("child", child);
    TELL(read(pair[0], &byte, 1));
    show_path("f", in_d("f"));
}

static void *use_files(void *given)
{
    char text[16] = {0};
    struct stat status;
    int fd = open(in_r("sub/back"), O_RDONLY);
    long right = fd >= 0 && read(fd, text, 6) == 6 && strcmp(text, "inner\n") == 0;
    close(fd);
    right += stat(in_r("to_dir/deep/leaf"), &status) == 0;
    right += access(in_r("none"), F_OK) != 0;
    FILE *file = given == NULL ? fopen(in_r("small"), "r") : NULL;
    if (file != NULL) {
        right += fgetc(file) == 'h';
        fclose(file);
    }
    return (void *) right;
}

static void *write_files(void *given)
{
    int fd = open(in_d("f"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    long right = fd >= 0 && write(fd, "thread", 6) == 6;
    right += close(fd) == 0;
    return (void *) right;
}

static void in_small_thread(const char *label, void *(*work)(void *), size_t bytes)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *result = NULL;
    pthread_attr_init(&attributes);
    TELL_CODE(pthread_attr_setstacksize(&attributes, bytes));
    OK(pthread_create(&thread, &attributes, work, NULL) == 0);
    OK(pthread_join(thread, &result) == 0);
    SHOW("%s: %ld", label, (long) result);
}

CASE(threads_with_16_kib_read) { in_small_thread("read", use_files, 16384); }

CASE(threads_with_16_kib_write)
{
    in_small_thread("write", write_files, 16384);
    show_path("f", in_d("f"));
}

static void *list_files(void *unused)
{
    char buffer[1000];
    int fd = open(in_r("many"), O_RDONLY);
    long all = 0, got;
    while ((got = getdents64(fd, buffer, sizeof(buffer))) > 0) {
        all += got;
    }
    close(fd);
    return (void *) (long) (all > 5000);
}

CASE(threads_with_16_kib_list) { in_small_thread("list", list_files, 16384); }

static void on_small_stack(int number)
{
    char text[8] = {0};
    int fd = open(in_r("small"), O_RDONLY);
    read(fd, text, 5);
    close(fd);
    write(1, text, 5);
    write(1, "\n", 1);
}

CASE(handler_on_a_small_alternate_stack)
{
    static char stack[16384];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_handler = on_small_stack, .sa_flags = SA_ONSTACK};
    OK(sigaltstack(&alternate, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    raise(SIGUSR1);
    SHOW("done");
}

CASE(low_limit_of_descriptors)
{
    struct rlimit limit = {32, 32};
    int fds[40], made = 0;
    OK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    show_path("reads", in_r("small"));
    while (made < 40 && (fds[made] = open(in_r("small"), O_RDONLY)) >= 0) {
        made++;
    }
    SHOW("%s after most %d", strerrorname_np(errno), made > 20);
    TELL(close(fds[0]));
    show_path("again", in_r("x"));
    put(in_d("f"), "written");
    show_path("f", in_d("f"));
    fflush(NULL);
    for (int i = 1; i < made; i++) {
        close(fds[i]);
    }
    char text[PATH_MAX];
    snprintf(text, sizeof(text), "cat %s", in_r("small"));
    TELL(system(text));
}

CASE(limit_of_descriptors_before_exec)
{
    char text[PATH_MAX];
    struct rlimit limit = {12, 12};
    snprintf(text, sizeof(text), "cat %s; echo made > %s; cat %s", in_r("small"), in_d("f"), in_d("f"));
    OK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    TELL(system(text));
}

CASE(low_limit_of_memory)
{
    char text[PATH_MAX];
    snprintf(text, sizeof(text), "ulimit -v 200000; cat %s; wc -c < %s; echo made > %s; cat %s", in_r("small"),
             in_r("mid.bin"), in_d("f"), in_d("f"));
    fflush(NULL);
    TELL(system(text));
}

CASE(low_limit_of_stack)
{
    char text[PATH_MAX];
    snprintf(text, sizeof(text), "ulimit -s 256; cat %s; ls %s | wc -l", in_r("small"), in_r("many"));
    fflush(NULL);
    TELL(system(text));
}

CASE(limit_of_file_size)
{
    struct rlimit limit = {100, 100};
    signal(SIGXFSZ, SIG_IGN);
    OK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    show_path("reads", in_r("small"));
    int fd = open(in_d("f"), O_WRONLY | O_CREAT, 0644);
    TELL(pwrite(fd, "x", 1, 99));
    TELL(pwrite(fd, "x", 1, 100));
    TELL(close(fd));
}

static sem_t started;

static void *read_until_cancelled(void *unused)
{
    static char room[200003];
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
    sem_post(&started);
    for (;;) {
        int fd = open(in_r("mid.bin"), O_RDONLY);
        read(fd, room, sizeof(room));
        close(fd);
        pthread_testcancel();
    }
}

static void cancel_one(int kind)
{
    pthread_t thread;
    void *result;
    sem_init(&started, 0, 0);
    OK(pthread_create(&thread, NULL, read_until_cancelled, NULL) == 0);
    sem_wait(&started);
    usleep(2000);
    TELL_CODE(pthread_cancel(thread));
    OK(pthread_join(thread, &result) == 0);
    SHOW("cancelled %d", result == PTHREAD_CANCELED);
}

CASE(cancelled_readers)
{
    for (int i = 0; i < 10; i++) {
        cancel_one(0);
    }
    show_path("reads on", in_r("small"));
}

static void *read_asynchronously(void *unused)
{
    static char room[200003];
    int fd = open(in_r("mid.bin"), O_RDONLY);
    sem_post(&started);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        pread(fd, room, sizeof(room), 0);
    }
}

CASE(asynchronous_cancellation_in_a_read)
{
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        void *result;
        sem_init(&started, 0, 0);
        OK(pthread_create(&thread, NULL, read_asynchronously, NULL) == 0);
        sem_wait(&started);
        usleep(1000);
        pthread_cancel(thread);
        OK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    show_path("reads on", in_r("small"));
}

static sigjmp_buf escape;
static volatile int jumps;

static void jump(int number)
{
    siglongjmp(escape, ++jumps);
}

CASE(siglongjmp_out_of_reads)
{
    static char room[2 << 20];
    struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
    signal(SIGALRM, jump);
    int fd = reader("big.bin");
    if (sigsetjmp(escape, 1) < 50) {
        setitimer(ITIMER_REAL, &often, NULL);
        for (;;) {
            pread(fd, room, sizeof(room), 0);
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    SHOW("jumped %d", jumps >= 50);
    TELL(pread(fd, room, sizeof(room), 0));
    SHOW("%lx", sum(room, sizeof(room)));
    show_path("reads on", in_r("small"));
    put(in_d("f"), "written");
}

CASE(siglongjmp_out_of_opens)
{
    struct itimerval often = {{0, 300}, {0, 300}}, never = {0};
    signal(SIGALRM, jump);
    if (sigsetjmp(escape, 1) < 50) {
        setitimer(ITIMER_REAL, &often, NULL);
        for (;;) {
            close(open(in_r("to_dir/deep/leaf"), O_RDONLY));
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    show_path("reads on", in_r("small"));
    IN_CHILD("child", show_path("child", in_r("small")));
}

static volatile int handled, bad;

static void reads_in_handler(int number)
{
    char text[8] = {0};
    int saved = errno, fd = open(in_r("small"), O_RDONLY);
    struct stat status;
    bad += read(fd, text, 5) != 5 || strcmp(text, "hello") != 0;
    bad += fstat(fd, &status) != 0 || status.st_size != 12;
    bad += close(fd) != 0;
    handled++;
    errno = saved;
}

CASE(handlers_read_during_reads)
{
    static char room[200003];
    struct itimerval often = {{0, 200}, {0, 200}}, never = {0};
    char *path = strdup(in_r("mid.bin")); /* the handler uses in_r, too */
    int wrong = 0;
    signal(SIGALRM, reads_in_handler);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 20000 && handled < 100; i++) {
        int fd = open(path, O_RDONLY);
        ssize_t got = fd < 0 ? -1 : read(fd, room, sizeof(room));
        if (got != sizeof(room)) {
            SHOW("open %d, read %zd: %s", fd, got, got < 0 ? strerrorname_np(errno) : "");
            wrong++;
        }
        close(fd);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    SHOW("wrong %d bad %d some %d", wrong, bad, handled > 0);
}

CASE(handlers_read_during_forks)
{
    struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
    signal(SIGALRM, reads_in_handler);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            int fd = open(in_r("small"), O_RDONLY);
            _exit(fd < 0);
        }
        int status = -1;
        while (waitpid(child, &status, 0) < 0) {
        }
        bad += status != 0;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    SHOW("bad %d", bad);
}

static void *keep_reading(void *stop)
{
    char room[5000];
    while (!*(volatile int *) stop) {
        int fd = open(in_r("lines"), O_RDONLY);
        read(fd, room, sizeof(room));
        close(fd);
    }
    return NULL;
}

CASE(forks_beside_reading_threads)
{
    static volatile int stop;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        OK(pthread_create(&threads[i], NULL, keep_reading, (void *) &stop) == 0);
    }
    int wrong = 0;
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct stat status;
            int fd = open(in_r("small"), O_RDONLY);
            put(in_d("f"), "x");
            _exit(fd < 0 || stat(in_r("x"), &status) != 0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    stop = 1;
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    SHOW("wrong %d", wrong);
}

static ucontext_t here, there;

static void in_context(void)
{
    show_path("in a context", in_r("small"));
}

CASE(contexts_of_the_program)
{
    static char stack[65536];
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof(stack);
    there.uc_link = &here;
    makecontext(&there, in_context, 0);
    swapcontext(&here, &there);
    SHOW("back");
}

CASE(own_namespace_of_descriptors)
{
    int fd = reader("small");
    TELL(unshare(CLONE_FILES));
    show_next("reads", fd);
    TELL(close(fd));
    show_path("again", in_r("x"));
}

CASE(environment_is_unchanged)
{
    for (char **each = environ; *each != NULL; each++) {
        if (strncmp(*each, "FANSTORE", 8) != 0 && strncmp(*each, "LD_PRELOAD", 10) != 0 &&
            strncmp(*each, "PWD=", 4) != 0) {
            SHOW("%.20s", *each);
        }
    }
    setenv("OWN", "value", 1);
    fflush(NULL);
    TELL(system("echo $OWN; env | grep -c ^OWN="));
}

CASE(exit_codes_and_signals)
{
    IN_CHILD("seven", _exit(7));
    IN_CHILD("killed", raise(SIGKILL));
    IN_CHILD("aborted", struct rlimit none = {0}; setrlimit(RLIMIT_CORE, &none); abort());
    IN_CHILD("terminated", raise(SIGTERM));
}

CASE(children_are_the_programs_own)
{
    TELL(waitpid(-1, NULL, WNOHANG));
    show_path("reads", in_r("small"));
    put(in_d("f"), "x");
    TELL(waitpid(-1, NULL, WNOHANG));
}

CASE(threads_of_the_program_alone)
{
    show_path("reads", in_r("small"));
    put(in_d("f"), "x");
    int tasks = 0;
    char line[200];
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "Threads:", 8) == 0 || strncmp(line, "SigBlk:", 7) == 0 || strncmp(line, "SigIgn:", 7) == 0) {
            SHOW("%s", line);
        }
    }
}

CASE(umask_and_priority_are_untouched)
{
    show_path("reads", in_r("small"));
    put(in_d("f"), "x");
    SHOW("%o", umask(0));
    sigset_t set;
    OK(sigprocmask(SIG_SETMASK, NULL, &set) == 0);
    SHOW("%d %d", sigisemptyset(&set), getpriority(PRIO_PROCESS, 0) >= 0);
}
