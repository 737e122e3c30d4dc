/*
 * The last decoded block of an open compressed file, so that small sequential reads decode each
 * block once. Memory comes from the kernel, not malloc: reads stay safe in signal handlers.
 */
#ifndef FAN_CLIENT_DECODE_H
#define FAN_CLIENT_DECODE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fan_file;

/* Reads [offset, offset + bytes) of a compressed file, inside its size. The count, less than asked
 * only when a later block failed, or -EIO, -EFAULT, -ENOMEM. `generation` is what the file's was
 * before anything else of it was looked at: a block that was decoded while another thread closed
 * the file is nobody else's. */
ssize_t fan_decode_read(struct fan_file *file, unsigned generation, char *to, uint64_t offset,
                        size_t bytes);

#endif
