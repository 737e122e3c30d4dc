/*
 * Inputs as files of the kernel's, for whoever needs one: the only way from an input to such a
 * file. A copy lies in memory, or on the local disk where it is large, and goes with its last
 * descriptor. Its name (copyname.h) says which input it is a copy of.
 *
 * Descriptors that these return are close-on-exec and the caller's to close. All read the whole
 * input, and may wait for a disk or the node daemon. Nothing allocates with malloc or locks; safe
 * in signal handlers and in a vfork child. Errors: -EFBIG (RLIMIT_FSIZE), -ENOSPC, -EDQUOT,
 * -ENOMEM, -EMFILE, -EIO.
 */
#ifndef FAN_CLIENT_REALCOPY_H
#define FAN_CLIENT_REALCOPY_H

#include <stddef.h>
#include <stdint.h>

struct fan_file;

/* A larger copy lies on the local disk. */
enum { FAN_COPY_IN_MEMORY_BYTES = 256 << 20 };

/* A copy of the open regular `file`, opened with `flags` (O_RDONLY and status flags), at its start.
 * It lies in memory up to `memory_max` bytes. */
int fan_real_open(struct fan_file *file, int flags, uint64_t memory_max);

/* The same for reading alone. */
int fan_real_copy(struct fan_file *file);

/* The same for another process: with the owner, the mode and the time of the file, and its status
 * flags, as far as this process and the kernel can give them. */
int fan_real_twin(struct fan_file *file);

/* The same of a file that is open as a path alone: O_PATH of a twin, or of a link like it. */
int fan_real_path(struct fan_file *file);

/* An empty file with the name of a copy, for who can pass no O_PATH on. A read of it answers EBADF,
 * a write EPERM. */
int fan_real_name(const struct fan_file *file);

/* A memory file that holds `bytes` of the file from `offset` on, all inside the file. It can be
 * sealed, and its name is FAN_MAP_COPY (mapping.h). */
int fan_real_part(struct fan_file *file, int64_t offset, size_t bytes);

/* Makes the new file `path` with the content and `mode`. 0 or -errno, and then no file is left;
 * -EEXIST: there was one. */
int fan_real_file(struct fan_file *file, const char *path, unsigned mode);

#endif
