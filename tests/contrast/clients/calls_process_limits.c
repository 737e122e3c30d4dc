/* Low limits, and what of a process stays the program's own. */
#include "calls.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

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

CASE(limit_of_descriptors_lowered_later)
{
    int fd = reader("small");
    for (int most = 100; most >= 20; most -= 20) {
        struct rlimit limit = {most, most};
        OK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        show_path("reads", in_r("x"));
        put(in_d("f"), "written");
    }
    show_next("still", fd);
    fflush(NULL);
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

CASE(own_namespace_of_descriptors)
{
    int fd = reader("small");
    TELL(unshare(CLONE_FILES));
    show_next("reads", fd);
    TELL(close(fd));
    show_path("again", in_r("x"));
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
