/* Processes, signals, threads and memory from C. */
#include "client.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

extern char **environ;

static void await(pid_t pid)
{
    int status;
    waitpid(pid, &status, 0);
    SHOW("status %d signal %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

CASE(vfork_and_exec)
{
    char *argv[] = {"cat", (char *) in_tree("text/hello.txt"), NULL};
    int fd = open(in_tree("text/lines.txt"), O_RDONLY);
    for (int i = 0; i < 3; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            close(fd);
            execv("/bin/cat", argv);
            _exit(9);
        }
        await(pid);
    }
    char buffer[30] = {0};
    SHOW("parent still reads %zd %.23s", read(fd, buffer, 23), buffer);
}

CASE(vfork_child_dup2_of_a_tree_file)
{
    int fd = open(in_tree("text/lines.txt"), O_RDONLY);
    lseek(fd, -24, SEEK_END);
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(fd, 0);
        close(fd);
        execl("/bin/cat", "cat", NULL);
        _exit(9);
    }
    await(pid);
    SHOW("offset %lld", (long long) lseek(fd, 0, SEEK_CUR));
}

CASE(vfork_child_opens_a_tree_file)
{
    const char *path = in_tree("text/hello.txt");
    int before = open("/dev/null", O_RDONLY);
    close(before);
    pid_t pid = vfork();
    if (pid == 0) {
        close(0);
        open(path, O_RDONLY);
        execl("/bin/cat", "cat", NULL);
        _exit(9);
    }
    await(pid);
    int after = open(path, O_RDONLY);
    SHOW("number %d", after == before);
}

static pid_t spawn_cat(posix_spawn_file_actions_t *actions)
{
    pid_t pid = -1;
    char *argv[] = {"cat", NULL};
    int rc = posix_spawn(&pid, "/bin/cat", actions, NULL, argv, environ);
    OK(rc == 0);
    return pid;
}

CASE(posix_spawn_opens_a_tree_file)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, in_tree("text/hello.txt"), O_RDONLY, 0);
    await(spawn_cat(&actions));
    posix_spawn_file_actions_destroy(&actions);
}

CASE(posix_spawn_dup2_close_and_chdir)
{
    posix_spawn_file_actions_t actions;
    int fd = open(in_tree("text/lines.txt"), O_RDONLY);
    lseek(fd, -48, SEEK_END);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 0);
    posix_spawn_file_actions_addclose(&actions, fd);
    await(spawn_cat(&actions));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, in_tree("text"));
    posix_spawn_file_actions_addopen(&actions, 0, "x", O_RDONLY, 0);
    await(spawn_cat(&actions));
}

CASE(posix_spawn_open_of_a_missing_file)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    char *argv[] = {"cat", NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, in_tree("none"), O_RDONLY, 0);
    SHOW("spawn %d", posix_spawn(&pid, "/bin/cat", &actions, NULL, argv, environ) == ENOENT);
}

CASE(posix_spawnp_of_a_tree_program)
{
    pid_t pid;
    char *argv[] = {"hello.sh", "spawned", NULL};
    setenv("PATH", in_tree("scripts"), 1);
    OK(posix_spawnp(&pid, "hello.sh", NULL, NULL, argv, environ) == 0);
    await(pid);
}

CASE(exec_family)
{
    const char *program = in_tree("scripts/hello.sh");
    char *argv[] = {"hello.sh", "argument", NULL};
    for (int i = 0; i < 6; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            setenv("PATH", "/nowhere", 1);
            switch (i) {
            case 0: execv(program, argv); break;
            case 1: execve(program, argv, environ); break;
            case 2: execl(program, "x", "list", NULL); break;
            case 3: execle(program, "x", "list with environment", NULL, environ); break;
            case 4: setenv("PATH", in_tree("scripts"), 1); execvp("hello.sh", argv); break;
            case 5: setenv("PATH", in_tree("scripts"), 1); execlp("hello.sh", "x", "by path", NULL); break;
            }
            _exit(9);
        }
        await(pid);
    }
}

CASE(fork_shares_the_offset)
{
    char buffer[10] = {0};
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        read(fd, buffer, 6);
        SHOW("child %s", buffer);
        _exit(0);
    }
    await(pid);
    SHOW("parent %zd %.5s", read(fd, buffer, 5), buffer);
}

static sigjmp_buf escape;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void) info;
    (void) context;
    siglongjmp(escape, number);
}

static void catch_faults(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    OK(sigaction(SIGSEGV, &action, NULL) == 0);
    OK(sigaction(SIGBUS, &action, NULL) == 0);
}

CASE(own_fault_handlers_still_run)
{
    char buffer[10];
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    read(fd, buffer, 5);
    catch_faults();
    read(fd, buffer, 5);
    int seen = sigsetjmp(escape, 1);
    if (seen == 0) {
        *(volatile int *) 16 = 1;
    }
    SHOW("SIGSEGV %d", seen == SIGSEGV);
    FAILS(EFAULT, read(fd, (void *) 16, 1));
    FILE *own = fopen(join("W", "short"), "w+");
    char *page = (char *) mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(own), 0);
    seen = sigsetjmp(escape, 1);
    if (seen == 0) {
        seen = ((volatile char *) page)[0];
    }
    SHOW("SIGBUS %d", seen == SIGBUS);
}

CASE(handlers_are_reported_as_set)
{
    struct sigaction old;
    SHOW("default %d", sigaction(SIGBUS, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    SHOW("default %d", sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    catch_faults();
    sigaction(SIGSEGV, NULL, &old);
    SHOW("ours %d", old.sa_sigaction == on_fault && (old.sa_flags & SA_SIGINFO) != 0);
    SHOW("previous %d", signal(SIGBUS, SIG_IGN) == (void (*)(int)) on_fault);
    SHOW("ignored %d", signal(SIGBUS, SIG_DFL) == SIG_IGN);
}

CASE(a_default_fault_kills_by_its_signal)
{
    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            struct rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            char buffer[5];
            read(open(in_tree("text/hello.txt"), O_RDONLY), buffer, 5);
            i == 0 ? (void) (*(volatile int *) 16 = 1) : (void) raise(SIGBUS);
            _exit(0);
        }
        await(pid);
    }
}

CASE(blocked_fault_signals_read_well)
{
    sigset_t set;
    char buffer[20] = {0};
    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    SHOW("read %zd %s", read(fd, buffer, 11), buffer);
}

static void in_handler(int number)
{
    char buffer[6] = {0};
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    read(fd, buffer, 5);
    close(fd);
    write(1, buffer, 5);
    write(1, "\n", 1);
}

CASE(reading_in_a_signal_handler)
{
    signal(SIGUSR1, in_handler);
    for (int i = 0; i < 5; i++) {
        raise(SIGUSR1);
    }
    SHOW("done");
}

CASE(alternate_stack_handler)
{
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    sigaltstack(&alternate, NULL);
    action.sa_handler = in_handler;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    SHOW("done");
}

static void *read_on_a_small_stack(void *unused)
{
    char buffer[64];
    int fd = open(in_tree("links/deep"), O_RDONLY);
    ssize_t bytes = read(fd, buffer, sizeof(buffer));
    struct stat status;
    stat(in_tree("links/to_dir/../links/chain10"), &status);
    close(fd);
    return (void *) (long) (bytes + status.st_size);
}

CASE(a_thread_with_a_small_stack)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *result;
    pthread_attr_init(&attributes);
    OK(pthread_attr_setstacksize(&attributes, 65536) == 0);
    pthread_create(&thread, &attributes, read_on_a_small_stack, NULL);
    pthread_join(thread, &result);
    SHOW("result %ld", (long) result);
}

static void *cancelled(void *unused)
{
    char buffer[100];
    for (;;) {
        int fd = open(in_tree("text/hello.txt"), O_RDONLY);
        read(fd, buffer, sizeof(buffer));
        close(fd);
        pthread_testcancel();
    }
}

CASE(thread_cancellation)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, cancelled, NULL);
    usleep(10000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    SHOW("cancelled %d", result == PTHREAD_CANCELED);
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    char buffer[6] = {0};
    SHOW("reads on %zd %s", read(fd, buffer, 5), buffer);
}

CASE(mmap_and_mmap64)
{
    int fd = open(in_tree("bin/mid.bin"), O_RDONLY);
    void *first = mmap(NULL, 200003, PROT_READ, MAP_PRIVATE, fd, 0);
    void *second = mmap64(NULL, 4096, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 8192);
    SHOW("sums %lx %lx", sum(first, 200003), sum(second, 4096));
    SHOW("unmap %d %d", munmap(first, 200003), munmap(second, 4096));
    FAILS(EINVAL, ({ void *p = mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0); p == MAP_FAILED ? -1L : 1L; }));
    FAILS(EINVAL, ({ void *p = mmap(NULL, 10, PROT_READ, MAP_PRIVATE, fd, 7); p == MAP_FAILED ? -1L : 1L; }));
    FAILS(EACCES, ({ void *p = mmap(NULL, 10, PROT_WRITE, MAP_SHARED, fd, 0); p == MAP_FAILED ? -1L : 1L; }));
}

CASE(mmap_fixed_and_mremap)
{
    int fd = open(in_tree("bin/mid.bin"), O_RDONLY);
    char *room = (char *) mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *view = mmap(room + 65536, 65536, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 4096);
    SHOW("fixed %d %lx", view == room + 65536, sum(view, 65536));
    view = mremap(view, 65536, 32768, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    SHOW("moved %d %lx", view == room, sum(view, 32768));
}

CASE(sendfile_names)
{
    int fd = open(in_tree("bin/mid.bin"), O_RDONLY);
    int out = open(join("W", "out"), O_WRONLY | O_CREAT, 0644);
    off_t offset = 100;
    off64_t offset64 = 5;
    SHOW("sendfile %zd %lld", sendfile(out, fd, &offset, 1000), (long long) offset);
    SHOW("sendfile64 %zd %lld", sendfile64(out, fd, &offset64, 70000), (long long) offset64);
    SHOW("null %zd %lld", sendfile(out, fd, NULL, 50), (long long) lseek(fd, 0, SEEK_CUR));
    FAILS(EBADF, sendfile(fd, out, NULL, 10));
}

static void at_exit(void)
{
    in_handler(0);
}

CASE(reading_at_exit_and_in_destructors)
{
    SHOW("atexit %d", atexit(at_exit));
}

static __attribute__((destructor)) void at_unload(void)
{
    in_handler(0);
}
