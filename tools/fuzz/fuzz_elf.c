/* Reads untrusted bytes as an ELF file: finds the libraries that it needs, without a fault and in
 * bounded work. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../csrc/client/code/elf.h"
#include "fuzz.h"

static const char strings[] = "\0libone.so\0libtwo.so\0$ORIGIN/../lib:/absolute\0libc.so.6";

/* The layout that a linker gives a small library. */
struct image {
    Elf64_Ehdr header;
    Elf64_Phdr segments[3];
    Elf64_Dyn dynamic[8];
    char strings[sizeof(strings)];
};

static void put_dynamic(struct image *image, unsigned number)
{
    const Elf64_Dyn dynamic[] = {
        {DT_NEEDED, {1}},
        {DT_NEEDED, {11}},
        {number == 0 ? DT_RUNPATH : DT_RPATH, {21}},
        {DT_NEEDED, {47}},
        {DT_STRTAB, {offsetof(struct image, strings)}},
        {DT_STRSZ, {sizeof(strings)}},
        {DT_NULL, {0}},
    };
    memcpy(image->dynamic, dynamic, sizeof(dynamic));
}

size_t fan_fuzz_seed(unsigned number, uint8_t *buffer, size_t capacity)
{
    struct image *image = (void *)buffer;
    if (number > 1 || capacity < sizeof(*image))
        return 0;
    memset(image, 0, sizeof(*image));
    memcpy(image->header.e_ident, ELFMAG, SELFMAG);
    image->header.e_ident[EI_CLASS] = ELFCLASS64;
    image->header.e_ident[EI_DATA] = ELFDATA2LSB;
    image->header.e_type = ET_DYN;
#if defined(__aarch64__)
    image->header.e_machine = EM_AARCH64;
#else
    image->header.e_machine = EM_X86_64;
#endif
    image->header.e_phoff = offsetof(struct image, segments);
    image->header.e_phentsize = sizeof(Elf64_Phdr);
    image->header.e_phnum = 3;
    image->segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_filesz = sizeof(*image)};
    image->segments[1] = (Elf64_Phdr){.p_type = PT_DYNAMIC,
                                      .p_offset = offsetof(struct image, dynamic),
                                      .p_vaddr = offsetof(struct image, dynamic),
                                      .p_filesz = sizeof(image->dynamic)};
    image->segments[2] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = UINT64_MAX};
    put_dynamic(image, number);
    memcpy(image->strings, strings, sizeof(strings));
    return sizeof(*image);
}

static void read_strings(const struct fan_elf *elf, char *text, size_t capacity)
{
    for (uint32_t i = 0; i < elf->needed_count; i++)
        fan_elf_string(elf, elf->needed[i], text, capacity);
    fan_elf_string(elf, elf->runpath, text, capacity);
    fan_elf_string(elf, elf->rpath, text, capacity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fan_elf elf;
    char *small = malloc(8), *large = malloc(300); /* exact sizes: a read past the end is seen */
    int fd = memfd_create("fuzz-elf", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
        abort();
    if (fan_elf_read(&elf, fd) == 0) {
        if (elf.needed_count > FAN_ELF_NEEDED_MAX || elf.load_count > FAN_ELF_LOADS_MAX)
            abort();
        read_strings(&elf, small, 8);
        read_strings(&elf, large, 300);
    }
    close(fd);
    free(small);
    free(large);
    return 0;
}
