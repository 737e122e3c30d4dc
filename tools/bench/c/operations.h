/* The measured operations: each does one thing with one path. Ordinary calls, no use of
 * FanStore. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "paths.h"

enum { PAGE_BYTES = 4096, FILE_BYTES_MAX = 8 << 20, OPEN_FILES_MAX = 16 };

/* The state of one thread. `buffer` is page-aligned, with room for a file and a page. */
struct worker {
    uint8_t *buffer;
    uint64_t random;
    uint64_t sum; /* of the words that `sum` read */
    int fds[OPEN_FILES_MAX];
    size_t fd_count;
    size_t fd_bytes; /* the size of the smallest open file */
};

enum operand { ON_FILES, ON_FOLDERS, ON_MISSING };

struct operation {
    const char *name;
    enum operand operand;
    /* Runs the operation. Returns the units done: 1, or the entries of a folder. Ends the process
     * if it fails. */
    uint64_t (*run)(struct worker *worker, const char *path);
    unsigned stride; /* units between two reads of the clock */
    int keeps_open;  /* uses the worker's open files */
};

/* Returns the operation with that name, or NULL. */
const struct operation *find_operation(const char *name);

/* Opens the worker's files. */
void open_files(struct worker *worker, const struct list *files);
void close_files(struct worker *worker);
