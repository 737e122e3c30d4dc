/*
 * The paths of open directories of outputs. Programs that unpack or remove trees name one file
 * after the other from the same descriptor, whose path takes the kernel longer to tell than a file
 * to be made.
 */
#ifndef FAN_CLIENT_OUTDIR_H
#define FAN_CLIENT_OUTDIR_H

#include "../files/filetable.h"

/* fan_fd_path of a descriptor of that kind, remembered until a directory of this node is moved or
 * removed. */
long fan_outdir_path(int fd, const struct fan_file *file, char *to, size_t capacity);

#endif
