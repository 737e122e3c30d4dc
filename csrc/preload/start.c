#include "start.h"

#include <alloca.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../client/content_io.h"
#include "../client/filetable.h"
#include "../client/handoff.h"
#include "../client/open.h"
#include "../client/outputs.h"
#include "../client/overlay.h"
#include "../client/realcopy.h"
#include "../common/sys.h"
#include "real.h"

/* As the kernel has it: how much of a script is looked at, how many interpreters in a row. */
enum { HEAD_BYTES = 256, SCRIPTS_MAX = 5, ARGUMENTS_MAX = 1 << 20 };

#define PRELOAD FAN_PRELOAD_ENV "="
#define JOB FAN_JOB_ENV "="

static size_t count(char *const list[])
{
    size_t n = 0;
    while (list != NULL && list[n] != NULL)
        n++;
    return n;
}

static bool is_variable(const char *entry, const char *name_and_equals)
{
    return strncmp(entry, name_and_equals, strlen(name_and_equals)) == 0;
}

/* Room for an amended environment: what was there, and three more. */
struct environment {
    char handoff[sizeof(FAN_HANDOFF_ENV) + FAN_HANDOFF_BYTES];
    char *preload; /* room for ours in front of another LD_PRELOAD, or NULL */
    char **entries;
};

/* Whether an LD_PRELOAD that a program made names the library already. */
static bool names_us(const char *entry)
{
    return strstr(entry, fan_job.preload + sizeof(PRELOAD) - 1) != NULL;
}

/* The bytes that LD_PRELOAD of `env` needs with ours in front; 0: it is there, or absent. */
static size_t merged_bytes(char *const env[])
{
    for (size_t i = 0; fan_job.preload != NULL && env != NULL && env[i] != NULL; i++) {
        if (is_variable(env[i], PRELOAD) && !names_us(env[i]))
            return strlen(env[i]) + strlen(fan_job.preload) + 2;
    }
    return 0;
}

/* Copies `env` so that the program comes under the job, whatever was taken out of it, and finds the
 * open files that it inherits. */
static void amend(struct environment *to, char *const env[], bool counted)
{
    bool preload = fan_job.preload == NULL, job = preload;
    size_t n = 0;
    for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
        char *entry = env[i];
        if (is_variable(entry, FAN_HANDOFF_ENV "="))
            continue;
        if (is_variable(entry, PRELOAD) && !preload) {
            if (!names_us(entry)) {
                char *end = stpcpy(stpcpy(to->preload, fan_job.preload), ":");
                strcpy(end, entry + sizeof(PRELOAD) - 1);
                entry = to->preload;
            }
            preload = true;
        }
        job = job || is_variable(entry, JOB);
        to->entries[n++] = entry;
    }
    if (!preload)
        to->entries[n++] = (char *)fan_job.preload;
    if (!job)
        to->entries[n++] = (char *)fan_job.variable;
    char *text = stpcpy(to->handoff, FAN_HANDOFF_ENV "=");
    if (fan_handoff_export(text, FAN_HANDOFF_BYTES, counted) > 0)
        to->entries[n++] = to->handoff;
    to->entries[n] = NULL;
}

static int start_path(const char *path, char *const argv[], char *const env[], unsigned scripts);

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Splits the first line of a script. The interpreter, with its one argument (NULL: none) in
 * `argument`; NULL when there is none. */
static char *parse_script(char head[HEAD_BYTES + 1], char **argument)
{
    char *line = head + 2;
    line[strcspn(line, "\n")] = '\0';
    size_t end = strlen(line);
    while (end > 0 && is_blank(line[end - 1]))
        line[--end] = '\0';
    line += strspn(line, " \t");
    char *rest = line + strcspn(line, " \t");
    *argument = NULL;
    if (*rest != '\0') {
        *rest++ = '\0';
        *argument = rest + strspn(rest, " \t");
    }
    return line[0] != '\0' ? line : NULL;
}

/* The interpreter opens the script by its path, as it does elsewhere. */
static int start_script(const char *path, char head[HEAD_BYTES + 1], char *const argv[],
                        char *const env[], unsigned scripts)
{
    char *argument, *interpreter = parse_script(head, &argument);
    if (interpreter == NULL)
        return -ENOEXEC;
    if (scripts >= SCRIPTS_MAX)
        return -ELOOP;
    size_t given = count(argv), n = 0;
    if (given > ARGUMENTS_MAX)
        return -E2BIG;
    char **list = alloca((given + 4) * sizeof(*list));
    list[n++] = interpreter;
    if (argument != NULL)
        list[n++] = argument;
    list[n++] = (char *)path;
    for (size_t i = 1; i < given; i++)
        list[n++] = argv[i];
    list[n] = NULL;
    return start_path(interpreter, list, env, scripts + 1);
}

/* The kernel runs a copy of any other program. */
static int start_copy(int from, char *const argv[], char *const env[])
{
    int copy = fan_real_copy(fan_file_get(from));
    if (copy < 0)
        return copy;
    int rc = (int)FAN_SYS(execveat, copy, "", argv, env, AT_EMPTY_PATH);
    fan_sys_close(copy);
    return rc;
}

/* A program or script of the mount, open as `from`. */
static int start_open(int from, const char *path, char *const argv[], char *const env[],
                      unsigned scripts)
{
    char head[HEAD_BYTES + 1];
    struct fan_file *file = fan_file_get(from);
    bool real = file->kind == FAN_FILE_OUTPUT;
    ssize_t got = real ? fan_sys_pread(from, head, HEAD_BYTES, 0)
                       : fan_content_pread(file, head, HEAD_BYTES, 0);
    head[got > 0 ? got : 0] = '\0';
    if (got > 2 && memcmp(head, "#!", 2) == 0)
        return start_script(path, head, argv, env, scripts);
    if (got < 0)
        return (int)got;
    return real ? (int)FAN_SYS(execveat, from, "", argv, env, AT_EMPTY_PATH)
                : start_copy(from, argv, env);
}

/* Whether this process may run a target: 0 or -errno. */
static int may_run(const struct fan_target *target)
{
    bool output = target->where == FAN_OUTPUT;
    if (target->where == FAN_MISSING)
        return -target->error;
    uint32_t mode = output ? target->attr.mode : target->record->mode;
    if (!S_ISREG(mode))
        return S_ISLNK(mode) ? -ELOOP : -EACCES;
    return output ? fan_output_permitted(&target->attr, X_OK, true)
                  : fan_permitted(target->dataset, target->id, X_OK, true);
}

static int start_ours(struct fan_target *target, const char *path, char *const argv[],
                      char *const env[], unsigned scripts)
{
    int rc = may_run(target);
    if (rc != 0)
        return rc;
    if (target->where == FAN_OUTPUT)
        target->where = FAN_BEYOND; /* opened by the path it was found at */
    int from = fan_open(target, O_RDONLY | O_CLOEXEC, 0);
    if (from < 0)
        return from;
    rc = fan_file_get(from) != NULL ? start_open(from, path, argv, env, scripts) : -EACCES;
    close(from);
    return rc;
}

static int start_path(const char *path, char *const argv[], char *const env[], unsigned scripts)
{
    struct fan_target target;
    if (fan_locate(AT_FDCWD, path, 0, &target))
        return start_ours(&target, path, argv, env, scripts);
    REAL(execve)(target.path, argv, env);
    int error = errno;
    if (error == ENOENT && fan_relocate(AT_FDCWD, path, 0, &target))
        return start_ours(&target, path, argv, env, scripts);
    return -error;
}

static int start_shell(const char *path, char *const argv[], char *const env[])
{
    size_t given = count(argv), n = 2;
    char **list = alloca((given + 3) * sizeof(*list));
    list[0] = "/bin/sh";
    list[1] = (char *)path;
    for (size_t i = 1; i < given; i++)
        list[n++] = argv[i];
    list[n] = NULL;
    return start_path(list[0], list, env, 0);
}

static int start_candidate(const char *path, char *const argv[], char *const env[], bool shell)
{
    int rc = start_path(path, argv, env, 0);
    return rc == -ENOEXEC && shell ? start_shell(path, argv, env) : rc;
}

/* Whether the search goes on after this failure. */
static bool passes_by(int rc)
{
    return rc == -ENOENT || rc == -EACCES || rc == -ESTALE || rc == -ENOTDIR || rc == -ENODEV ||
           rc == -ETIMEDOUT;
}

static int search(const char *name, char *const argv[], char *const env[], bool shell)
{
    const char *path = getenv("PATH");
    size_t bytes = strlen(name);
    int answer = -ENOENT;
    if (bytes == 0 || strchr(name, '/') != NULL)
        return start_candidate(name, argv, env, shell);
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
            int rc = start_candidate(candidate, argv, env, shell);
            if (!passes_by(rc))
                return rc;
            if (answer != -EACCES)
                answer = rc;
        }
        if (*end == '\0')
            return answer;
    }
}

int fan_start(enum fan_start how, const char *name, char *const argv[], char *const env[])
{
    struct environment amended;
    size_t variables = count(env), merged = merged_bytes(env);
    if (variables > ARGUMENTS_MAX || merged > ARGUMENTS_MAX || count(argv) > ARGUMENTS_MAX)
        return -E2BIG;
    amended.entries = alloca((variables + 4) * sizeof(*amended.entries));
    amended.preload = merged > 0 ? alloca(merged) : NULL;
    bool counted = fan_in_vfork_child();
    amend(&amended, env, counted);
    fan_output_before_exec();
    int rc = how == FAN_START_PATH
                 ? start_path(name, argv, amended.entries, 0)
                 : search(name, argv, amended.entries, how == FAN_START_SEARCH_SHELL);
    fan_output_after_failed_exec();
    fan_handoff_cancel(counted);
    return rc;
}
