#include "start.h"

#include <alloca.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../client/content/content_io.h"
#include "../../client/files/filetable.h"
#include "../../client/open/open.h"
#include "../../client/outputs/outputs.h"
#include "../../client/code/program.h"
#include "../../client/content/realcopy.h"
#include "../../common/sys.h"
#include "../cancel.h"
#include "../real.h"
#include "environment.h"
#include "start_code.h"

/* Returns whether an option of the dynamic linker takes an argument. */
static bool takes_word(const char *option)
{
    static const char *const known[] = {
        "--library-path",         "--inhibit-rpath",    "--audit", "--preload", "--argv0",
        "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask"};
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(option, known[i]) == 0)
            return true;
    }
    return false;
}

/* Returns whether a path has the name of a dynamic linker. If started as a command (ld.so PROGRAM,
 * which ldd uses), a linker opens the program itself. */
static bool is_linker(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    return strcmp(name, "ld.so") == 0 ||
           (strncmp(name, "ld-", 3) == 0 && strstr(name, ".so") != NULL);
}

/* Returns the index of the program among the linker's arguments; 0 if there is none. */
static size_t linker_program(char *const argv[])
{
    size_t at = argv != NULL && argv[0] != NULL ? 1 : 0;
    while (at > 0 && argv[at] != NULL && strncmp(argv[at], "--", 2) == 0)
        at += takes_word(argv[at]) && argv[at + 1] != NULL ? 2 : 1;
    return at > 0 && argv[at] != NULL ? at : 0;
}

enum { ARGUMENTS_MAX = 1 << 20 };

/* The state of one start, passed down to the exec itself. */
struct start {
    char *const *argv;
    struct fan_environment environment;
    unsigned scripts; /* interpreters of scripts so far */
};

/* Prepares for a program that the library cannot enter, which will run unless the kernel refuses
 * it. */
static void give_real_files(struct start *start, bool shut_out)
{
    if (!shut_out)
        return;
    fan_output_leave();
    if (!start->environment.need.placeholders)
        return;
    fan_environment_fini(&start->environment);
    fan_handoff_make_real();
    fan_environment_again(&start->environment);
}

/* Executes a path outside the mounts. Returns -errno. */
static int exec_outside(int dirfd, const char *path, int flags, struct start *start)
{
    if (start->environment.need.placeholders || fan_output_any())
        give_real_files(start, start->environment.off || fan_program_shuts_out(dirfd, path));
    if (dirfd != AT_FDCWD || flags != 0)
        return (int)FAN_SYS(execveat, dirfd, path, start->argv, start->environment.entries, flags);
    REAL(execve)(path, start->argv, start->environment.entries);
    return -errno;
}

/* Executes an open file. Returns -errno. */
static int exec_open(int fd, struct start *start)
{
    if (start->environment.need.placeholders || fan_output_any())
        give_real_files(start, start->environment.off || fan_program_shuts_out_fd(fd));
    return (int)FAN_SYS(execveat, fd, "", start->argv, start->environment.entries, AT_EMPTY_PATH);
}

/* Executes a program that was made real. Returns -errno. */
static int exec_code(struct fan_start_code *code, struct start *start)
{
    char **entries = start->environment.entries, **handoff = start->environment.handoff;
    void *memory = alloca(code->bytes);
    const char *path = fan_start_code_end(code, memory, &start->environment);
    int rc = exec_outside(AT_FDCWD, path, 0, start);
    start->environment.entries = entries;
    start->environment.handoff = handoff;
    return rc;
}

static int start_path(const char *path, struct start *start);

/* Starts an interpreter with an argument (or NULL), and passes it the script's path, as the kernel
 * does. */
static int start_interpreter(char *interpreter, char *argument, const char *path,
                             struct start *start)
{
    size_t given = fan_list_count(start->argv), n = 0;
    char **list = alloca((given + 4) * sizeof(*list));
    list[n++] = interpreter;
    if (argument != NULL)
        list[n++] = argument;
    list[n++] = (char *)path;
    for (size_t i = 1; i < given; i++)
        list[n++] = start->argv[i];
    list[n] = NULL;
    char *const *before = start->argv;
    start->argv = list;
    int rc = start_path(interpreter, start);
    start->argv = before;
    return rc;
}

static int start_script(const char *path, char head[FAN_SCRIPT_HEAD_BYTES + 1], struct start *start)
{
    char *argument, *interpreter = fan_script_parse(head, &argument);
    if (interpreter == NULL)
        return -ENOEXEC;
    if (start->scripts++ >= FAN_SCRIPTS_MAX)
        return -ELOOP;
    int rc = start_interpreter(interpreter, argument, path, start);
    start->scripts--;
    return rc;
}

/* Whether the kernel has the open file: an output, or the original of an input. */
static bool is_kernels(int fd)
{
    const struct fan_file *file = fan_file_get(fd);
    return file == NULL || file->kind == FAN_FILE_OUTPUT;
}

/* Runs a program by its descriptor because there is no place for its file (the disk is full, or
 * runs no programs): an output itself, or a copy of an input in memory. */
static int start_unplaced(int from, struct start *start)
{
    if (is_kernels(from))
        return exec_open(from, start);
    int copy = fan_real_copy(fan_file_get(from));
    if (copy < 0)
        return copy;
    int rc = exec_open(copy, start);
    fan_sys_close(copy);
    return rc;
}

static int start_program(int from, const char *path, struct start *start)
{
    struct fan_start_code code;
    int rc = fan_start_code_begin(&code, path, NULL, start->environment.entries);
    if (rc == 0)
        rc = exec_code(&code, start);
    return rc == -ENOEXEC ? rc : start_unplaced(from, start);
}

/* Starts a program or script of a mount, open as `from`. */
static int start_open(int from, const char *path, struct start *start)
{
    char head[FAN_SCRIPT_HEAD_BYTES + 1];
    ssize_t got = is_kernels(from)
                      ? fan_sys_pread(from, head, FAN_SCRIPT_HEAD_BYTES, 0)
                      : fan_content_pread(fan_file_get(from), head, FAN_SCRIPT_HEAD_BYTES, 0);
    head[got > 0 ? got : 0] = '\0';
    if (got > 2 && memcmp(head, "#!", 2) == 0)
        return start_script(path, head, start);
    if (got < 0)
        return (int)got;
    return start_program(from, path, start);
}

static int may_run_in_tree(const struct fan_target *target)
{
    struct stat st;
    long rc = FAN_SYS(newfstatat, target->dirfd, target->path, &st, 0);
    if (rc != 0)
        return (int)rc;
    if (!S_ISREG(st.st_mode))
        return -EACCES;
    return (int)FAN_SYS(faccessat, target->dirfd, target->path, X_OK);
}

/* Checks whether this process may run a target. Returns 0 or -errno. */
static int may_run(const struct fan_target *target)
{
    if (target->where == FAN_TREE)
        return may_run_in_tree(target);
    uint32_t mode = fan_target_mode(target);
    if (target->where != FAN_MISSING && !S_ISREG(mode))
        return S_ISLNK(mode) ? -ELOOP : -EACCES;
    return fan_target_permitted(target, X_OK, true);
}

static int start_ours(struct fan_target *target, const char *path, struct start *start)
{
    int rc = may_run(target);
    if (rc != 0)
        return rc;
    if (target->where == FAN_OUTPUT)
        target->where = FAN_BEYOND; /* to be opened by the path at which it was found */
    int from = fan_open(target, O_RDONLY | O_CLOEXEC, 0);
    if (from < 0)
        return from;
    bool is_ours = fan_file_get(from) != NULL || target->where == FAN_INPUT;
    rc = is_ours ? start_open(from, path, start) : -EACCES;
    fan_close_quietly(from);
    return rc;
}

/* Starts the dynamic linker with a program of a mount, which is made real. Returns -ENOENT if it is
 * asked for none. */
static int start_linker(const char *path, struct start *start)
{
    struct fan_target target;
    struct fan_start_code code;
    char *const *before = start->argv;
    size_t at = linker_program(before), given = fan_list_count(before);
    if (at == 0 || (!fan_locate(AT_FDCWD, before[at], 0, &target) && target.where != FAN_TREE) ||
        target.where == FAN_MISSING ||
        fan_start_code_begin(&code, before[at], path, start->environment.entries) != 0)
        return -ENOENT;
    char **list = alloca((given + 1) * sizeof(*list));
    memcpy(list, before, (given + 1) * sizeof(*list));
    list[at] = strcpy(alloca(strlen(code.program) + 1), code.program);
    start->argv = list;
    int rc = exec_code(&code, start);
    start->argv = before;
    return rc;
}

static int start_outside(const char *path, struct start *start)
{
    char head[FAN_SCRIPT_HEAD_BYTES + 1];
    const char *program;
    struct fan_start_code code;
    int rc = is_linker(path) ? start_linker(path, start) : -ENOENT;
    if (rc != -ENOENT)
        return rc;
    switch (fan_start_look(path, start->environment.entries, head, &program)) {
    case FAN_START_INTERPRETED:
        return start_script(path, head, start);
    case FAN_START_WITH_CODE:
        if (fan_start_code_begin(&code, program, path, start->environment.entries) == 0)
            return exec_code(&code, start);
        break;
    default:
        break;
    }
    return exec_outside(AT_FDCWD, path, 0, start);
}

static int start_path(const char *path, struct start *start)
{
    struct fan_target target;
    if (fan_locate(AT_FDCWD, path, 0, &target) || target.where == FAN_TREE)
        return start_ours(&target, path, start);
    int rc = start_outside(target.path, start);
    if (rc == -ENOENT && fan_relocate(AT_FDCWD, path, 0, &target))
        return target.where == FAN_OUTSIDE ? start_outside(target.path, start)
                                           : start_ours(&target, path, start);
    return rc;
}

static int start_candidate(const char *path, struct start *start, bool shell)
{
    int rc = start_path(path, start);
    return rc == -ENOEXEC && shell ? start_interpreter("/bin/sh", NULL, path, start) : rc;
}

/* Returns whether to continue the search along PATH after this failure. */
static bool passes_by(int rc)
{
    return rc == -ENOENT || rc == -EACCES || rc == -ESTALE || rc == -ENOTDIR || rc == -ENODEV ||
           rc == -ETIMEDOUT;
}

static int search(const char *name, struct start *start, bool shell)
{
    const char *path = getenv("PATH");
    size_t bytes = strlen(name);
    int answer = -ENOENT;
    if (bytes == 0 || strchr(name, '/') != NULL)
        return start_candidate(name, start, shell);
    if (bytes > NAME_MAX)
        return -ENAMETOOLONG;
    for (const char *at = path != NULL ? path : "/bin:/usr/bin", *end;; at = end + 1) {
        char candidate[PATH_MAX];
        end = strchrnul(at, ':');
        size_t head = (size_t)(end - at);
        if (head + bytes + 2 <= sizeof(candidate)) {
            memcpy(candidate, at, head);
            candidate[head] = '/';
            memcpy(candidate + head + (head > 0), name, bytes + 1);
            int rc = start_candidate(candidate, start, shell);
            if (!passes_by(rc))
                return rc;
            if (answer != -EACCES)
                answer = rc;
        }
        if (*end == '\0')
            return answer;
    }
}

/* Calls execveat(2) for a path that may be outside, or a descriptor. Allocates on the stack,
 * because nothing else is freed once the program has started. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wframe-larger-than="
static int start_at(const struct fan_program *program, struct start *start)
{
    struct fan_target target;
    char full[PATH_MAX];
    unsigned follow = program->flags & AT_SYMLINK_NOFOLLOW ? FAN_NOFOLLOW : 0;
    if (!fan_locate(program->dirfd, program->name, follow, &target) && target.where != FAN_TREE)
        return exec_outside(target.dirfd, target.path, program->flags, start);
    int64_t length = fan_target_path(&target, full, sizeof(full));
    return length < 0 ? (int)length : start_path(full, start);
}
#pragma GCC diagnostic pop

static int start_as(const struct fan_program *program, struct start *start)
{
    switch (program->how) {
    case FAN_START_PATH:
        return start_path(program->name, start);
    case FAN_START_AT:
        return start_at(program, start);
    default:
        return search(program->name, start, program->how == FAN_START_SEARCH_SHELL);
    }
}

int fan_start(const struct fan_program *program, char *const argv[], char *const env[])
{
    struct start start = {.argv = argv};
    int rc = fan_list_count(argv) > ARGUMENTS_MAX
                 ? -E2BIG
                 : fan_environment_measure(&start.environment, env);
    if (rc != 0)
        return rc;
    fan_environment_fill(&start.environment, alloca(start.environment.bytes), env);
    fan_output_before_exec();
    rc = start_as(program, &start);
    fan_output_after_failed_exec();
    fan_environment_fini(&start.environment);
    return rc;
}
