/*
 * Answers the kernel for the files on the mount: the FUSE protocol of <linux/fuse.h>, of which only
 * reading is needed. A file on the mount stands for an input of the job, and its name there is the
 * input's number here. The content comes from pread(2), which the preload library answers in this
 * process like in any program of the job.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    FAN_FUSE_FILES_MAX = 4096,
    FAN_FUSE_READ_BYTES_MAX = 128 << 10 /* what the kernel asks for at once; a mount option */
};

/* An input that was opened; it stays open. */
struct fan_fuse_file {
    int fd;
    dev_t device;
    ino_t inode;
    uint64_t bytes;
};

/* count: the number of `files`; it only grows. most: how many there may be. */
struct fan_fuse {
    int device;
    unsigned most;
    void (*reads_for)(uint32_t tid); /* says which thread's read is answered next */
    atomic_uint count;
    struct fan_fuse_file files[FAN_FUSE_FILES_MAX];
};

/* Starts threads that answer the requests from `fuse->device`, a descriptor of /dev/fuse. They end
 * the process when the mount is gone. Returns 0 or -errno. */
int fan_fuse_start(struct fan_fuse *fuse);

/* Opens an input by its path. Returns its number or -errno. For one thread. */
int fan_fuse_add(struct fan_fuse *fuse, const char *path);
