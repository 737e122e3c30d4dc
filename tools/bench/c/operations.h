/* What is measured: one operation on one path. Ordinary calls, no use of FanStore. */
#ifndef BENCH_OPERATIONS_H
#define BENCH_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

#include "paths.h"

enum { PAGE_BYTES = 4096, FILE_BYTES_MAX = 8 << 20, OPEN_FILES_MAX = 16 };

/* What a thread works with. `buffer` is page-aligned, with room for a file and a page. */
struct worker {
    uint8_t *buffer;
    uint64_t random;
    uint64_t sum; /* of what `sum` read */
    int fds[OPEN_FILES_MAX];
    size_t fd_count;
    size_t fd_bytes; /* of the smallest of the open files */
};

enum operand { ON_FILES, ON_FOLDERS, ON_MISSING };

struct operation {
    const char *name;
    enum operand operand;
    /* Does it; the units done: 1, or the entries of a folder. Ends the process when it fails. */
    uint64_t (*run)(struct worker *worker, const char *path);
    unsigned stride; /* so many between two looks at the clock */
    int keeps_open;  /* works on the open files of the worker */
};

/* The operation of that name, or NULL. */
const struct operation *find_operation(const char *name);

/* Opens the worker's files. */
void open_files(struct worker *worker, const struct list *files);
void close_files(struct worker *worker);

#endif
