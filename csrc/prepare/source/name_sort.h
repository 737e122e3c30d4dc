/*
 * Sorts the names of one directory of any size: names that do not fit in memory are written to a
 * file in sorted runs, which are then merged.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* text: names that are in no run yet, each with its NUL. run_ends: where each run ends in the file
 * fd. */
struct fan_name_sort {
    char *text;
    size_t used, room, run_bytes;
    uint64_t *run_ends;
    size_t run_count;
    int dir_fd, fd;
};

typedef int fan_name_taker(void *context, const char *name);

/* Begins a sort. Runs of about `run_bytes` go to a file in the directory dir_fd; if it is -1, all
 * names stay in memory. */
void fan_name_sort_init(struct fan_name_sort *sort, int dir_fd, size_t run_bytes);

/* Adds a copy of a name. Returns 0 or -errno. */
int fan_name_sort_add(struct fan_name_sort *sort, const char *name);

/* Calls `take` for each name in the order of strcmp, until it returns a value other than 0. Returns
 * that value, 0, or -errno. */
int fan_name_sort_each(struct fan_name_sort *sort, fan_name_taker *take, void *context);

/* Frees the sort's memory and file. */
void fan_name_sort_fini(struct fan_name_sort *sort);
