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

#if defined(__x86_64__)
enum { OUR_MACHINE = EM_X86_64 };
#else
enum { OUR_MACHINE = EM_AARCH64 };
#endif

enum { SEGMENTS_MAX = 256 };

/* glibc's is ld-linux-x86-64.so.2 and the like wherever it lies; musl's ld-musl-x86_64.so.1. */
static bool is_glibc_loader(const char *interpreter)
{
    const char *name = strrchr(interpreter, '/');
    return strncmp(name != NULL ? name + 1 : interpreter, "ld-linux", 8) == 0;
}

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
    return fan_sys_pread(fd, to, bytes, (int64_t)offset) == (long)bytes;
}

/* Whether a segment names a loader that loads the library. */
static bool asks_for_loader(int fd, const Elf64_Phdr *segment)
{
    char interpreter[128];
    size_t bytes = segment->p_filesz;
    if (bytes == 0 || bytes >= sizeof(interpreter) || !read_at(fd, interpreter, bytes,
                                                               segment->p_offset))
        return false;
    interpreter[bytes] = '\0';
    return is_glibc_loader(interpreter);
}

/* A program of another kind or machine has no loader that can. */
static bool elf_shuts_out(int fd, const Elf64_Ehdr *header)
{
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != OUR_MACHINE ||
        header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > SEGMENTS_MAX)
        return true;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        if (!read_at(fd, &segment, sizeof(segment), header->e_phoff + i * sizeof(segment)))
            return true;
        if (segment.p_type == PT_INTERP)
            return !asks_for_loader(fd, &segment);
    }
    return true;
}

/* Whether the kernel tells the loader to trust nothing from the environment. */
static bool gains_privileges(int fd)
{
    struct stat st;
    if (FAN_SYS(fstat, fd, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)) != 0)
        return true;
    return FAN_SYS(fgetxattr, fd, "security.capability", NULL, 0) > 0;
}

bool fan_program_shuts_out_fd(int fd)
{
    Elf64_Ehdr header;
    if (!read_at(fd, &header, sizeof(header), 0) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    return elf_shuts_out(fd, &header) || gains_privileges(fd);
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

/* The interpreter that an open script names in `head`, or NULL. */
static const char *interpreter_of(int fd, char head[FAN_SCRIPT_HEAD_BYTES + 1])
{
    char *argument;
    long got = fan_sys_pread(fd, head, FAN_SCRIPT_HEAD_BYTES, 0);
    if (got < 3 || memcmp(head, "#!", 2) != 0)
        return NULL;
    head[got] = '\0';
    return fan_script_parse(head, &argument);
}

/* What may be executed and not be read: taken for the worst. */
static bool is_executable(int dirfd, const char *path)
{
    return FAN_SYS(faccessat, dirfd, path, X_OK) == 0;
}

bool fan_program_shuts_out(int dirfd, const char *path)
{
    char head[FAN_SCRIPT_HEAD_BYTES + 1];
    if (path != NULL && path[0] == '\0' && dirfd >= 0) { /* the descriptor itself */
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
