#include "program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/descriptor.h"
#include "../../common/sys.h"
#include "elf.h"

/* Returns whether a loader is glibc's: its name begins with "ld-linux", in any directory; musl's is
 * ld-musl-x86_64.so.1. */
static bool is_glibc_loader(const char *interpreter)
{
    const char *name = strrchr(interpreter, '/');
    return strncmp(name != NULL ? name + 1 : interpreter, "ld-linux", 8) == 0;
}

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
    return fan_sys_pread(fd, to, bytes, (int64_t)offset) == (long)bytes;
}

/* Returns whether a program asks for a loader that can load the preload library. Programs of other
 * kinds or machines do not. */
static bool asks_for_loader(int fd)
{
    struct fan_elf elf;
    char interpreter[128];
    if (fan_elf_read_headers(&elf, fd) != 0)
        return false;
    size_t bytes = elf.interpreter.bytes;
    if (bytes == 0 || bytes >= sizeof(interpreter) ||
        !read_at(fd, interpreter, bytes, elf.interpreter.offset))
        return false;
    interpreter[bytes] = '\0';
    return is_glibc_loader(interpreter);
}

/* Returns whether the kernel would make the loader ignore the environment. */
static bool gains_privileges(int fd)
{
    struct stat st;
    if (FAN_SYS(fstat, fd, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)) != 0)
        return true;
    return FAN_SYS(fgetxattr, fd, "security.capability", NULL, 0) > 0;
}

bool fan_program_shuts_out_fd(int fd)
{
    char magic[SELFMAG];
    if (!read_at(fd, magic, sizeof(magic), 0) || memcmp(magic, ELFMAG, SELFMAG) != 0)
        return false;
    return !asks_for_loader(fd) || gains_privileges(fd);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

char *fan_script_parse(char *head, char **argument)
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

/* Returns the interpreter that an open script names in `head`, or NULL. */
static const char *interpreter_of(int fd, char head[FAN_SCRIPT_HEAD_BYTES + 1])
{
    char *argument;
    long got = fan_sys_pread(fd, head, FAN_SCRIPT_HEAD_BYTES, 0);
    if (got < 3 || memcmp(head, "#!", 2) != 0)
        return NULL;
    head[got] = '\0';
    return fan_script_parse(head, &argument);
}

/* Returns whether a file that cannot be read may be executed; the caller then assumes that the
 * library cannot enter it. */
static bool is_executable(int dirfd, const char *path)
{
    return FAN_SYS(faccessat, dirfd, path, X_OK) == 0;
}

bool fan_program_shuts_out(int dirfd, const char *path)
{
    char head[FAN_SCRIPT_HEAD_BYTES + 1];
    if (path != NULL && path[0] == '\0' && dirfd >= 0) { /* the descriptor itself is meant */
        fan_fd_link(dirfd, head);
        path = head;
    }
    for (int scripts = 0; path != NULL && scripts <= FAN_SCRIPTS_MAX; scripts++) {
        int fd = fan_sys_openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
        if (fd < 0)
            return fd == -EACCES && is_executable(dirfd, path);
        path = interpreter_of(fd, head);
        bool shut_out = path == NULL && fan_program_shuts_out_fd(fd);
        fan_sys_close(fd);
        if (shut_out)
            return true;
        dirfd = AT_FDCWD;
    }
    return false;
}
