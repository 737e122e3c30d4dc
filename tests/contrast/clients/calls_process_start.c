/* New processes: fork, vfork, posix_spawn, exec, their environments and their ends. */
#include "calls.h"

#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>

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

static char *const numbers[] = {"sh", "-c", "cat; readlink /proc/self/fd/60 /proc/self/fd/61 "
                                "/proc/self/fd/62 /proc/self/fd/63", NULL};

CASE(spawned_child_wants_every_number)
{
    pid_t child;
    posix_spawn_file_actions_t actions;
    int fd = reader("small"), null = open("/dev/null", O_RDONLY);
    OK(posix_spawn_file_actions_init(&actions) == 0);
    OK(posix_spawn_file_actions_adddup2(&actions, fd, 0) == 0);
    for (int i = 20; i < 70; i++) {
        OK(posix_spawn_file_actions_adddup2(&actions, null, i) == 0);
    }
    OK(posix_spawn_file_actions_addopen(&actions, 63, "/dev/zero", O_RDONLY, 0) == 0);
    int code = posix_spawn(&child, "/bin/sh", &actions, NULL, numbers, environ);
    show_end("child", child);
    SHOW("spawn %d", code);
    TELL(fcntl(63, F_GETFD));
    OK(lseek(fd, 0, SEEK_SET) == 0);
    show_next("parent", fd);
    show_path("new", in_r("x"));
}

CASE(vfork_child_wants_every_number)
{
    int fd = reader("small"), null = open("/dev/null", O_RDONLY);
    pid_t child = vfork();
    if (child == 0) {
        for (int i = 20; i < 70; i++) {
            dup2(null, i);
        }
        execv("/bin/sh", numbers);
        _exit(9);
    }
    show_end("child", child);
    show_next("parent", fd);
    show_path("new", in_r("x"));
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
    run("a link", a_link);
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
