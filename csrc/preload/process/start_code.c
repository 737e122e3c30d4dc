#include "start_code.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../../client/code/code_tree.h"
#include "../../client/code/elf.h"
#include "../../common/sys.h"

#define NOW FAN_LIBRARY_PATH "="
#define WAS FAN_LIBRARY_PATH_WAS "="
#define NONE FAN_LIBRARY_PATH_NONE "=1"

static bool has_foreign(const struct fan_code_tree *tree)
{
    for (unsigned i = 0; i < fan_code_count(tree); i++) {
        if (fan_code_item(tree, i)->foreign)
            return true;
    }
    return false;
}

static int add_program(struct fan_code_tree *tree, const char *path)
{
    int number = fan_code_add(tree, path);
    if (number == -EXDEV)
        number = fan_code_add_known(tree, fan_code_outside(tree), NULL, -1);
    if (number >= 0)
        fan_code_close_over(tree, number);
    return number;
}

int fan_start_code_begin(struct fan_start_code *code, const char *program, const char *script,
                         char *const env[])
{
    const char *old = fan_environment_value(env, NOW);
    bool replace = fan_code_mentions_mount(old);
    struct fan_code_tree *tree = fan_code_begin(replace ? old : NULL, false);
    if (tree == NULL)
        return -ENOMEM;
    int number = add_program(tree, program);
    if (number < 0) {
        fan_code_end(tree);
        return number;
    }
    const struct fan_code_item *item = fan_code_item(tree, (unsigned)number);
    *code = (struct fan_start_code){.tree = tree, .before = old};
    code->program = item->place != NULL ? item->place : item->path;
    code->path = script != NULL ? script : code->program;
    code->bytes = strlen(code->path) + 1;
    if (replace || has_foreign(tree))
        code->library_path = fan_code_library_path(tree, old);
    if (code->library_path != NULL)
        code->bytes += (fan_list_count(env) + 4) * sizeof(char *) + sizeof(NOW) + sizeof(WAS) +
                       sizeof(NONE) + strlen(code->library_path) + (old ? strlen(old) : 0);
    return 0;
}

/* Puts the changed LD_LIBRARY_PATH and the variable with its old value. The handoff stays the last
 * entry. */
static void put_variables(const struct fan_start_code *code, char **to, char *text,
                          struct fan_environment *environment)
{
    char *const *from = environment->entries;
    size_t before_handoff = (size_t)(environment->handoff - from), n = 0;
    for (size_t i = 0; i < before_handoff; i++) {
        if (strncmp(from[i], NOW, sizeof(NOW) - 1) != 0)
            to[n++] = from[i];
    }
    to[n++] = text;
    text = stpcpy(stpcpy(text, NOW), code->library_path) + 1;
    to[n++] = text;
    if (code->before != NULL)
        strcpy(stpcpy(text, WAS), code->before);
    else
        strcpy(text, NONE);
    to[n] = environment->handoff[0];
    to[n + 1] = NULL;
    environment->entries = to;
    environment->handoff = &to[n];
}

const char *fan_start_code_end(struct fan_start_code *code, void *memory,
                               struct fan_environment *environment)
{
    char *text = memory;
    if (code->library_path != NULL) {
        size_t room = (fan_list_count(environment->entries) + 4) * sizeof(char *);
        text += room;
        put_variables(code, memory, text + strlen(code->path) + 1, environment);
    }
    strcpy(text, code->path);
    fan_code_end(code->tree);
    return text;
}

/* Returns whether the directories that an open ELF file names may be in mounts. */
static bool names_mount(int fd)
{
    struct fan_elf elf;
    char list[512];
    if (fan_elf_read(&elf, fd) != 0)
        return false;
    uint64_t at = elf.runpath != FAN_ELF_NONE ? elf.runpath : elf.rpath;
    int64_t length = at != FAN_ELF_NONE ? fan_elf_string(&elf, at, list, sizeof(list)) : 0;
    return length == -ENAMETOOLONG || (length > 0 && fan_code_mentions_mount(list));
}

/* Returns the interpreter of an open script, written to `line`, or NULL. */
static const char *read_script(int fd, char head[FAN_SCRIPT_HEAD_BYTES + 1],
                               char line[FAN_SCRIPT_HEAD_BYTES + 1])
{
    char *argument;
    long got = fan_sys_pread(fd, head, FAN_SCRIPT_HEAD_BYTES, 0);
    head[got > 0 ? got : 0] = '\0';
    if (got <= 2 || memcmp(head, "#!", 2) != 0)
        return NULL;
    memcpy(line, head, (size_t)got + 1);
    return fan_script_parse(line, &argument);
}

static int open_file(const char *path)
{
    return fan_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
}

static __attribute__((noinline)) bool is_in_mount(const char *path)
{
    struct fan_target target;
    return (fan_locate(AT_FDCWD, path, 0, &target) || target.where == FAN_TREE) &&
           target.where != FAN_MISSING;
}

/* Finds out how a script depends on mounts; its head was read. Sets *fd to a descriptor of its
 * interpreter, or -1. */
static enum fan_start_outside look_at_script(const char *path, const char *interpreter, bool code,
                                             int *fd)
{
    fan_sys_close(*fd);
    *fd = -1;
    if (is_in_mount(interpreter))
        return FAN_SYS(faccessat, AT_FDCWD, path, X_OK) == 0 ? FAN_START_INTERPRETED
                                                             : FAN_START_PLAIN;
    if (!code)
        *fd = open_file(interpreter);
    return FAN_START_WITH_CODE;
}

enum fan_start_outside fan_start_look(const char *path, char *const env[],
                                      char head[FAN_SCRIPT_HEAD_BYTES + 1], const char **program)
{
    char line[FAN_SCRIPT_HEAD_BYTES + 1];
    bool code = fan_code_mentions_mount(fan_environment_value(env, NOW));
    int fd = open_file(path);
    const char *interpreter = fd >= 0 ? read_script(fd, head, line) : NULL;
    *program = path;
    if (interpreter != NULL) {
        *program = head + (interpreter - line);
        enum fan_start_outside found = look_at_script(path, interpreter, code, &fd);
        if (found != FAN_START_WITH_CODE)
            return found;
        memcpy(head, line, sizeof(line)); /* *program is the terminated name within it */
    }
    code = code || (fd >= 0 && names_mount(fd));
    if (fd >= 0)
        fan_sys_close(fd);
    return code ? FAN_START_WITH_CODE : FAN_START_PLAIN;
}
