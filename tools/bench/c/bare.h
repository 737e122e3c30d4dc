/* The limit: what a read costs that is one placeholder descriptor and one memcpy. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <stddef.h>
#include <stdint.h>

#include "paths.h"

/* Maps all files into memory and touches every page. Ends the process when that fails. */
void bare_map(const struct list *files);

/* A descriptor: a duplicate of one that is open already. */
int bare_open(void);
void bare_close(int fd);

/* Opens, copies the file that was mapped from `path`, and closes. `path` is the list's own. */
void bare_read(const char *path, uint8_t *buffer);

/* Copies 4 KiB of the file that was mapped from `path`, at a page that `chance` chooses. */
void bare_pread(const char *path, uint64_t chance, uint8_t *buffer);

#endif
