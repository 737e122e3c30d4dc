/* Lists files, and puts them in random orders. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { PATH_BYTES = 4096 };

struct list {
    char **paths;
    size_t count;
    size_t capacity;
};

/* The content of TOP/NAME: folders, the files in them, and for each file a path that does not
 * exist. */
struct kind {
    char name[64];
    struct list folders;
    struct list files;
    struct list missing;
};

/* Prints `what` with errno, and ends the process with exit code 1. */
_Noreturn void fail(const char *what);

/* Adds the path FOLDER SEPARATOR NAME. */
void add_path(struct list *list, const char *folder, const char *separator, const char *name);

/* Adds the paths in a folder, sorted by name. Ends the process if it cannot be listed. */
void list_folder(struct list *list, const char *folder);

/* Returns the kind NAME below `top`, listed when first used. Ends the process if it does not
 * exist. */
struct kind *find_kind(const char *top, const char *name);

/* Returns a new random order of `count` numbers, which the caller frees. `state` is not 0 and
 * advances. */
uint32_t *random_order(size_t count, uint64_t *state);

/* Returns the paths of a list in a new random order, which the caller frees. `state` is not 0 and
 * advances. The texts follow each other in the returned block, so that the look-up of a path is
 * measured and not cache misses of its letters. */
char **shuffled(const struct list *list, uint64_t *state);

/* Returns the next random number (xorshift). */
uint64_t next_random(uint64_t *state);
