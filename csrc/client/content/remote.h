/*
 * Files whose pack another node has: their stored bytes, through the node's block cache. A block
 * that is there costs no message and no system call; the others are asked of the node daemon,
 * several at once. Nothing process-wide is held while waiting; each wait is bounded, and ends with
 * the daemon.
 */
#ifndef FAN_CLIENT_REMOTE_H
#define FAN_CLIENT_REMOTE_H

#include <stdint.h>

struct fan_file;
struct fan_look;

/* All of [offset, offset + bytes) of the stored bytes, which the record's check allows. 0, -EIO
 * (damaged wherever it lies), -EFAULT, or -EREMOTEIO: not to be had this way, the shared file
 * system may have it. */
int fan_remote_read(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes);

/* As fan_remote_read, of bytes > 0 that lie in one block of the cache: they are shown there, under
 * a pin. Where that fails they may have been shown all the same, and have changed meanwhile. */
int fan_remote_show(struct fan_file *file, const struct fan_look *look, uint64_t offset,
                    uint64_t bytes);

/* Tells the daemon that [offset, offset + bytes), bytes > 0, will be read soon, where there is a
 * session already. Waits for nothing; the hint may be forgotten. */
void fan_remote_hint(const struct fan_file *file, uint64_t offset, uint64_t bytes);

/* Tells the daemon that this process has the file open, so that its blocks are kept. Where that
 * fails, the first read does it. */
void fan_remote_open(struct fan_file *file);

/* At the last close in this process, of a file that has `registered` set. */
void fan_remote_close(struct fan_file *file);

#endif
