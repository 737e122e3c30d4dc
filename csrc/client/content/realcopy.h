/*
 * Files of ours made real: for what needs a file of the kernel's. The copy lies in memory, one of
 * more than 256 MiB on the local disk, and goes with its last descriptor. Its name (copyname.h)
 * says what it is a copy of.
 */
#ifndef FAN_CLIENT_REALCOPY_H
#define FAN_CLIENT_REALCOPY_H

struct fan_file;

/* A descriptor, open for reading at the start, of a file with the content of `file`. Close-on-exec.
 * Or -errno: -EFBIG (RLIMIT_FSIZE), -ENOSPC, -ENOMEM, -EIO. Allocates nothing; safe in a vfork
 * child. */
int fan_real_copy(struct fan_file *file);

/* The same for another process: with the owner, the mode and the time of the file, and its status
 * flags, as far as this process and the kernel can give them. */
int fan_real_twin(struct fan_file *file);

/* The same of a file that is open as a path alone: O_PATH of a twin, or of a link like it. */
int fan_real_path(struct fan_file *file);

#endif
