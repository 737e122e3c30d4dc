/* The limit for reads: one placeholder descriptor and one memcpy for each file. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "paths.h"

/* Maps all files into memory and touches every page. Ends the process if that fails. */
void bare_map(const struct list *files);

/* Returns a descriptor: a duplicate of one that is open already. */
int bare_open(void);
void bare_close(int fd);

/* Opens, copies the file that was mapped from `path`, and closes. `path` must be the list's
 * pointer. */
void bare_read(const char *path, uint8_t *buffer);

/* Copies 4 KiB of the file that was mapped from `path`, at a page that `chance` chooses. */
void bare_pread(const char *path, uint64_t chance, uint8_t *buffer);
