/* Other libraries that are preloaded, before ours and behind it; and calls before and after main. */
#include "calls.h"

#include <dirent.h>

static void run_with(const char *library, bool before, const char *command)
{
    char list[3 * PATH_MAX];
    const char *now = getenv("LD_PRELOAD");
    if (now == NULL) {
        now = "";
    }
    snprintf(list, sizeof(list), before ? "%s:%s" : "%2$s:%1$s", library, now);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv("LD_PRELOAD", list, 1);
        execl("/bin/sh", "sh", "-c", command, NULL);
    }
    show_end(command, child);
}

static const char *other(void)
{
    return join("LIBRARIES", "preload_other.so");
}

#define READS "cd \"$R\"; cat small sub/inner"
#define WRITES "cd \"$D\"; echo text > f; cat f; mv f g; ls"
#define LISTS "cd \"$R\"; ls sub; find sub | sort; stat -c %s small"

CASE(other_before_reads) { run_with(other(), true, READS); }
CASE(other_behind_reads) { run_with(other(), false, READS); }
CASE(other_before_writes) { run_with(other(), true, WRITES); }
CASE(other_behind_writes) { run_with(other(), false, WRITES); }
CASE(other_before_lists) { run_with(other(), true, LISTS); }
CASE(other_behind_lists) { run_with(other(), false, LISTS); }

/* jemalloc makes itself ready when memory is first asked for, which may be inside ours. */
static const char *allocator(void)
{
    static const char *const places[] = {"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
                                         "/usr/lib64/libjemalloc.so.2", "/usr/lib/libjemalloc.so.2"};
    for (int i = 0; i < 3; i++) {
        if (access(places[i], R_OK) == 0) {
            return places[i];
        }
    }
    return "";
}

CASE(jemalloc_before) { run_with(allocator(), true, READS "; " LISTS); }
CASE(jemalloc_behind) { run_with(allocator(), false, READS "; " LISTS); }
CASE(jemalloc_writes) { run_with(allocator(), true, WRITES); }

CASE(missing_library_beside)
{
    run_with("/no/such/library.so", true, "exec 2>/dev/null; " READS);
    run_with("/no/such/library.so", false, "exec 2>/dev/null; " READS);
}

static char early[8], late[8];
static int early_got, early_listed;

static void look(int argc, char **argv, char **environment)
{
    char path[PATH_MAX] = "";
    for (char **each = environment; *each != NULL; each++) {
        if (strncmp(*each, "R=", 2) == 0) {
            snprintf(path, sizeof(path), "%s/small", *each + 2);
        }
    }
    int fd = open(path, O_RDONLY);
    early_got = fd < 0 ? -errno : read(fd, early, 5);
    close(fd);
    *strrchr(path, '/') = '\0';
    DIR *dir = opendir(path);
    early_listed = dir != NULL && readdir(dir) != NULL && closedir(dir) == 0;
}

__attribute__((section(".preinit_array"), used)) static void (*const before_all)(int, char **, char **) = look;

/* .preinit_array comes before every library's constructors, ours among them. */
CASE(before_every_constructor)
{
    SHOW("%d %s %d", early_got, early, early_listed);
}

static int look_late;

static void at_the_end(const char *when)
{
    char text[100] = {0};
    int fd = open(in_r("small"), O_RDONLY);
    ssize_t got = read(fd, text + 40, 5);
    int bytes = snprintf(text, 40, "%s %zd ", when, got);
    write(1, text, bytes);
    write(1, text + 40, 5);
    write(1, "\n", 1);
    close(fd);
    fd = open(in_d("late"), O_WRONLY | O_CREAT | O_APPEND, 0644);
    write(fd, when, strlen(when));
    close(fd);
}

static void by_atexit(void) { at_the_end("atexit"); }
static void by_on_exit(int code, void *unused) { at_the_end("on_exit"); }

__attribute__((destructor(101))) static void after_others(void)
{
    if (look_late) {
        at_the_end("destructor");
    }
}

CASE(at_exit_and_in_destructors)
{
    look_late = 1;
    OK(atexit(by_atexit) == 0 && on_exit(by_on_exit, NULL) == 0);
}

CASE(exit_leaves_files_open)
{
    int fd = open(in_d("f"), O_WRONLY | O_CREAT, 0644);
    OK(write(fd, "left open", 9) == 9);
    FILE *file = fopen(in_d("g"), "w");
    OK(fputs("left in the buffer", file) >= 0);
    show_path("not yet", in_d("g"));
}

__attribute__((constructor(65000))) static void late_constructor(void)
{
    const char *root = getenv("R");
    if (root != NULL) {
        int fd = open(join("R", "small"), O_RDONLY);
        read(fd, late, 5);
        close(fd);
    }
}

CASE(in_the_programs_constructor)
{
    SHOW("%s", late);
}

