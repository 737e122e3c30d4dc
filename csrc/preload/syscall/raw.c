#include "raw.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../client/code/elf.h"
#include "../../client/job/fresh.h"
#include "../../client/machine/raw_sites.h"
#include "../../common/sys.h"
#include "../real.h"

/* Two names that Rust's standard library imports from libc. C++ code imports the first one, too,
 * but never both; looking through all code of CUDA's libraries would bring 400 MiB into memory. */
static const struct {
    const char *name;
    size_t bytes;
} marks[] = {
    {"\0__cxa_thread_atexit_impl", sizeof("\0__cxa_thread_atexit_impl")},
    {"\0__xpg_strerror_r", sizeof("\0__xpg_strerror_r")},
};

/* C++ libraries have far longer tables of names. */
enum { NAMES_BYTES_MAX = 256 << 10, MARKS = sizeof(marks) / sizeof(marks[0]), ALL_MARKS = 3 };

/* The marks in a part of a table of names, a bit for each. */
static unsigned marks_in(const char *names, size_t bytes)
{
    unsigned found = 0;
    for (unsigned i = 0; i < MARKS; i++)
        found |= (unsigned)(memmem(names, bytes, marks[i].name, marks[i].bytes) != NULL) << i;
    return found;
}

/* Returns whether a segment is code: readable, and not written by the program. */
static bool is_code(const ElfW(Phdr) *segment)
{
    return segment->p_type == PT_LOAD &&
           (segment->p_flags & (PF_R | PF_W | PF_X)) == (PF_R | PF_X);
}

/* Adds a path to the job's report. A program has no name in the list of loaded files, and libc may
 * not know it yet. */
static void note(const char *path)
{
    char program[PATH_MAX];
    if (path[0] == '\0') {
        fan_sys_readlink(AT_FDCWD, "/proc/self/exe", program, sizeof(program));
        path = program;
    }
    fan_job_note("raw-calls", path);
}

static void redirect_segments(const struct dl_phdr_info *info)
{
    int rc = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        unsigned char *begin = (unsigned char *)(info->dlpi_addr + segment->p_vaddr);
        if (rc >= 0 && is_code(segment))
            rc = fan_raw_redirect(begin, begin + segment->p_filesz);
    }
    if (rc < 0)
        note(info->dlpi_name);
}

/* Returns 1, which ends the search, if this is the library. */
static int take_library(struct dl_phdr_info *info, size_t bytes, void *argument)
{
    const struct link_map *map = argument;
    (void)bytes;
    if (info->dlpi_addr != map->l_addr || strcmp(info->dlpi_name, map->l_name) != 0)
        return 0;
    redirect_segments(info);
    return 1;
}

void fan_raw_loaded(void *handle)
{
    dl_iterate_phdr(take_library, handle);
}

/* Returns the table of names to which a loaded file's dynamic section points. */
static const char *names_of(const ElfW(Dyn) *entry, uintptr_t base, size_t *bytes)
{
    uintptr_t names = 0;
    for (; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB)
            names = entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRSZ)
            *bytes = entry->d_un.d_val;
    }
    return (const char *)(names != 0 && names < base ? names + base : names);
}

static bool is_off;

/* Handles the first file in the list, the program. Go's runtime takes the numbers of its system
 * calls from variables, so none of them is found: the report names such a program. */
static int take_program(struct dl_phdr_info *info, size_t bytes, void *argument)
{
    static const char go_note[] = "Go\0";
    const char *names = NULL;
    size_t names_bytes = 0;
    (void)bytes;
    (void)argument;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const void *begin = (const void *)(info->dlpi_addr + segment->p_vaddr);
        if (segment->p_type == PT_DYNAMIC)
            names = names_of(begin, info->dlpi_addr, &names_bytes);
        if (segment->p_type == PT_NOTE &&
            memmem(begin, segment->p_memsz, go_note, sizeof(go_note)) != NULL)
            note(info->dlpi_name);
    }
    if (FAN_RAW_CALLS && !is_off && names != NULL && names_bytes <= NAMES_BYTES_MAX &&
        marks_in(names, names_bytes) == ALL_MARKS)
        redirect_segments(info);
    return 1;
}

void fan_raw_begin(const char *redirect)
{
    is_off = redirect != NULL && strcmp(redirect, "0") == 0;
    dl_iterate_phdr(take_program, NULL);
}

static bool file_has_marks(int fd)
{
    struct fan_elf elf;
    char piece[2048];
    if (fan_elf_read(&elf, fd) != 0 || elf.strings_bytes > NAMES_BYTES_MAX)
        return false;
    unsigned found = 0;
    const size_t overlap = marks[0].bytes - 1; /* the longest mark is the first */
    for (uint64_t at = 0; found != ALL_MARKS && at < elf.strings_bytes;
         at += sizeof(piece) - overlap) {
        uint64_t left = elf.strings_bytes - at, bytes = left < sizeof(piece) ? left : sizeof(piece);
        long got = fan_sys_pread(fd, piece, bytes, (int64_t)(elf.strings + at));
        found |= got > 0 ? marks_in(piece, (size_t)got) : 0;
    }
    return found == ALL_MARKS;
}

bool fan_raw_wanted(const char *path)
{
    bool looked_at = FAN_RAW_CALLS && !is_off && strchr(path, '/') != NULL && path[0] != '$';
    int fd = looked_at ? fan_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0) : -1;
    bool wanted = fd >= 0 && file_has_marks(fd);
    if (fd >= 0)
        fan_sys_close(fd);
    void *loaded = wanted ? REAL(dlopen)(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (loaded != NULL)
        dlclose(loaded);
    return wanted && loaded == NULL;
}
