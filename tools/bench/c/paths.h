/* The files of a kind, and random orders of them. */
#ifndef BENCH_PATHS_H
#define BENCH_PATHS_H

#include <stddef.h>
#include <stdint.h>

enum { PATH_BYTES = 4096 };

struct list {
    char **paths;
    size_t count;
    size_t capacity;
};

/* What lies below TOP/NAME: folders, the files in them, and a name beside each that is not there. */
struct kind {
    char name[64];
    struct list folders;
    struct list files;
    struct list missing;
};

/* Prints what failed, with errno, and ends the process with 1. */
_Noreturn void fail(const char *what);

/* The kind NAME below `top`, listed at its first use. Ends the process when it is not there. */
struct kind *find_kind(const char *top, const char *name);

/* A new random order of `count` numbers; `state` is not 0 and goes on. To be freed. */
uint32_t *random_order(size_t count, uint64_t *state);

/* The paths of a list in a new random order; `state` is not 0 and goes on. They lie one behind the
 * other in the block that the result begins: what is measured is the look-up of a path, not how the
 * processor comes by its letters. To be freed. */
char **shuffled(const struct list *list, uint64_t *state);

/* The next of a row of random numbers (xorshift). */
uint64_t next_random(uint64_t *state);

#endif
