/*
 * The last decoded block of an open compressed file, so that small sequential reads decode each
 * block once. Memory comes from the kernel, not malloc: reads stay safe in signal handlers.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fan_file;

/* Reads [offset, offset + bytes) of a compressed file; the range must be inside the file. Returns
 * the count, which is smaller than asked only if a later block failed, or -EIO, -EFAULT, -ENOMEM.
 * `generation`: the file's, loaded before any other field; a block that was decoded while another
 * thread closed the file is not reused for another file. */
ssize_t fan_decode_read(struct fan_file *file, unsigned generation, char *to, uint64_t offset,
                        size_t bytes);
