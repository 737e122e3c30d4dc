/*
 * Reads from an ELF file which loader and which libraries it asks for, as far as the kernel and the
 * dynamic linker use them. Files are untrusted: everything is read with pread, within bounds and
 * with a limited amount of work.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { FAN_ELF_NEEDED_MAX = 192, FAN_ELF_LOADS_MAX = 16 };

/* Stands for no string. Strings are offsets in the table of dynamic strings. */
#define FAN_ELF_NONE UINT64_MAX

/* A part of the file, and its address in memory. */
struct fan_elf_load {
    uint64_t address;
    uint64_t offset;
    uint64_t bytes;
};

struct fan_elf {
    int fd; /* the caller's descriptor */
    uint32_t load_count;
    uint32_t needed_count;
    uint64_t strings;       /* the file offset of the table */
    uint64_t strings_bytes; /* 0: there is none */
    uint64_t rpath;         /* FAN_ELF_NONE also if there is a RUNPATH, which overrides it */
    uint64_t runpath;
    struct fan_elf_load dynamic;         /* .bytes is 0 if the program is linked statically */
    struct fan_elf_load interpreter;     /* the path of the loader; .bytes is 0 if there is none */
    uint64_t needed[FAN_ELF_NEEDED_MAX]; /* any further ones are ignored */
    struct fan_elf_load loads[FAN_ELF_LOADS_MAX];
};

/* Reads the headers of the file `fd`: loads, dynamic and interpreter. Returns 0; -ENOEXEC if it is
 * no ELF file of this machine; -EIO. */
int fan_elf_read_headers(struct fan_elf *elf, int fd);

/* Fills all of `elf`. Returns 0, also for a statically linked program; -ENOEXEC if it is no ELF
 * file of this machine, or damaged; -EIO, also if the file ends too early. */
int fan_elf_read(struct fan_elf *elf, int fd);

/* Copies a string and a NUL. Returns its length, -ENOEXEC if the table does not contain all of it,
 * or -ENAMETOOLONG. */
int64_t fan_elf_string(const struct fan_elf *elf, uint64_t at, char *to, size_t capacity);
