/*
 * Sorts the names of one directory, however many there are: names that do not fit in memory go to a
 * file in sorted runs, which are merged.
 */
#ifndef FAN_PREPARE_NAME_SORT_H
#define FAN_PREPARE_NAME_SORT_H

#include <stddef.h>
#include <stdint.h>

/* text: names not in a run yet, each with its NUL. run_ends: where each run ends in the file fd. */
struct fan_name_sort {
    char *text;
    size_t used, room, run_bytes;
    uint64_t *run_ends;
    size_t run_count;
    int dir_fd, fd;
};

typedef int fan_name_taker(void *context, const char *name);

/* Begins a sort. Runs of about `run_bytes` go to a file in the directory dir_fd; -1: all names stay
 * in memory. */
void fan_name_sort_init(struct fan_name_sort *sort, int dir_fd, size_t run_bytes);

/* Takes a copy of a name. 0 or -errno. */
int fan_name_sort_add(struct fan_name_sort *sort, const char *name);

/* Calls `take` for each name in the order of strcmp, and stops when it returns other than 0.
 * Returns that value, 0, or -errno. */
int fan_name_sort_each(struct fan_name_sort *sort, fan_name_taker *take, void *context);

/* Frees what the sort holds. */
void fan_name_sort_fini(struct fan_name_sort *sort);

#endif
