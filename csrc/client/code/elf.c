#include "elf.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "../../common/sys.h"

#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_X86_64 };
#endif

enum { HEADERS_MAX = 256, HEADERS_AT_ONCE = 8, ENTRIES_MAX = 4096, ENTRIES_AT_ONCE = 32 };

static int read_exactly(int fd, void *to, size_t bytes, uint64_t offset)
{
    return offset > INT64_MAX - bytes ? -ENOEXEC : fan_sys_read_full(fd, to, bytes, offset);
}

static int check_header(const Elf64_Ehdr *header)
{
    bool ours = memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                header->e_ident[EI_CLASS] == ELFCLASS64 &&
                header->e_ident[EI_DATA] == ELFDATA2LSB && header->e_machine == MACHINE &&
                (header->e_type == ET_DYN || header->e_type == ET_EXEC) &&
                header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum <= HEADERS_MAX;
    return ours ? 0 : -ENOEXEC;
}

static void note_header(struct fan_elf *elf, const Elf64_Phdr *header)
{
    struct fan_elf_load load = {header->p_vaddr, header->p_offset, header->p_filesz};
    if (header->p_type == PT_LOAD && elf->load_count < FAN_ELF_LOADS_MAX)
        elf->loads[elf->load_count++] = load;
    if (header->p_type == PT_DYNAMIC)
        elf->dynamic = load;
    if (header->p_type == PT_INTERP && elf->interpreter.bytes == 0)
        elf->interpreter = load;
}

static int read_headers(struct fan_elf *elf, const Elf64_Ehdr *header)
{
    Elf64_Phdr some[HEADERS_AT_ONCE];
    for (unsigned i = 0; i < header->e_phnum; i += HEADERS_AT_ONCE) {
        unsigned left = header->e_phnum - i,
                 count = left < HEADERS_AT_ONCE ? left : HEADERS_AT_ONCE;
        if (header->e_phoff > INT64_MAX)
            return -ENOEXEC;
        int rc = read_exactly(elf->fd, some, count * sizeof(*some),
                              header->e_phoff + i * sizeof(*some));
        if (rc != 0)
            return rc;
        for (unsigned j = 0; j < count; j++)
            note_header(elf, &some[j]);
    }
    return 0;
}

/* Finds the file offset of an address, and the number of bytes from there to the end of its part.
 * Returns false if the file does not contain it. */
static bool file_offset(const struct fan_elf *elf, uint64_t address, uint64_t *offset,
                        uint64_t *bytes)
{
    for (unsigned i = 0; i < elf->load_count; i++) {
        const struct fan_elf_load *load = &elf->loads[i];
        uint64_t into = address - load->address;
        if (address < load->address || into >= load->bytes || load->offset > INT64_MAX - into)
            continue;
        *offset = load->offset + into;
        *bytes = load->bytes - into;
        return true;
    }
    return false;
}

/* Stores what an entry of the dynamic section says. Returns true at the end of the section. */
static bool note_entry(struct fan_elf *elf, const Elf64_Dyn *entry, uint64_t *table)
{
    switch (entry->d_tag) {
    case DT_NULL:
        return true;
    case DT_NEEDED:
        if (elf->needed_count < FAN_ELF_NEEDED_MAX)
            elf->needed[elf->needed_count++] = entry->d_un.d_val;
        break;
    case DT_STRTAB:
        *table = entry->d_un.d_ptr;
        break;
    case DT_STRSZ:
        elf->strings_bytes = entry->d_un.d_val;
        break;
    case DT_RPATH:
        elf->rpath = entry->d_un.d_val;
        break;
    case DT_RUNPATH:
        elf->runpath = entry->d_un.d_val;
        break;
    default:
        break;
    }
    return false;
}

static int read_dynamic(struct fan_elf *elf, uint64_t *table)
{
    const struct fan_elf_load *dynamic = &elf->dynamic;
    Elf64_Dyn some[ENTRIES_AT_ONCE];
    uint64_t total = dynamic->bytes / sizeof(*some);
    bool ended = false;
    for (uint64_t i = 0; !ended && i < total && i < ENTRIES_MAX; i += ENTRIES_AT_ONCE) {
        uint64_t count = total - i < ENTRIES_AT_ONCE ? total - i : ENTRIES_AT_ONCE;
        if (dynamic->offset > INT64_MAX)
            return -ENOEXEC;
        int rc = read_exactly(elf->fd, some, count * sizeof(*some),
                              dynamic->offset + i * sizeof(*some));
        if (rc != 0)
            return rc;
        for (uint64_t j = 0; !ended && j < count; j++)
            ended = note_entry(elf, &some[j], table);
    }
    return 0;
}

static int find_strings(struct fan_elf *elf, uint64_t table)
{
    uint64_t there;
    if (!file_offset(elf, table, &elf->strings, &there) || elf->strings_bytes > there)
        return -ENOEXEC;
    if (elf->runpath != FAN_ELF_NONE)
        elf->rpath = FAN_ELF_NONE;
    return 0;
}

int fan_elf_read_headers(struct fan_elf *elf, int fd)
{
    Elf64_Ehdr header;
    memset(elf, 0, offsetof(struct fan_elf, needed));
    elf->fd = fd;
    elf->rpath = elf->runpath = FAN_ELF_NONE;
    int rc = read_exactly(fd, &header, sizeof(header), 0);
    if (rc == 0)
        rc = check_header(&header);
    return rc == 0 ? read_headers(elf, &header) : rc;
}

int fan_elf_read(struct fan_elf *elf, int fd)
{
    uint64_t table = 0;
    int rc = fan_elf_read_headers(elf, fd);
    if (rc == 0 && elf->dynamic.bytes > 0)
        rc = read_dynamic(elf, &table);
    if (rc == 0 && elf->dynamic.bytes > 0)
        rc = find_strings(elf, table);
    return rc;
}

int64_t fan_elf_string(const struct fan_elf *elf, uint64_t at, char *to, size_t capacity)
{
    enum { STEP = 256 };
    uint64_t length = 0;
    if (at >= elf->strings_bytes)
        return -ENOEXEC;
    for (uint64_t left = elf->strings_bytes - at; length < left;) {
        uint64_t room = capacity - length, step = left - length < STEP ? left - length : STEP;
        if (room == 0)
            return -ENAMETOOLONG;
        step = step < room ? step : room;
        int rc = read_exactly(elf->fd, to + length, step, elf->strings + at + length);
        if (rc != 0)
            return rc;
        const char *end = memchr(to + length, '\0', step);
        if (end != NULL)
            return end - to;
        length += step;
    }
    return -ENOEXEC;
}
