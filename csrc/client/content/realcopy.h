/*
 * Copies inputs to real files, for callers that need one for the kernel. No other code does this. A
 * copy is in memory, or on the local disk if it is large, and disappears with its last descriptor.
 * Its name (copyname.h) says which input it is a copy of.
 *
 * The returned descriptors are close-on-exec, and the caller closes them. Each function may wait
 * for a disk or the node daemon. No function calls malloc or takes a lock, so all are safe in
 * signal handlers and in a vfork child. Errors: -EFBIG (RLIMIT_FSIZE), -ENOSPC, -EDQUOT, -ENOMEM,
 * -EMFILE, -EIO.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fan_file;

/* Larger copies go to the local disk. */
enum { FAN_COPY_IN_MEMORY_BYTES = 256 << 20 };

/* Makes a copy of the open regular `file` and opens it with `flags` (O_RDONLY and status flags), at
 * its start. A copy of up to `memory_max` bytes lies in memory. */
int fan_real_open(struct fan_file *file, int flags, uint64_t memory_max);

/* Like fan_real_open, for reading only and with the usual limit of memory. */
int fan_real_copy(struct fan_file *file);

/* Like fan_real_copy, for another process: the copy has the owner, mode and time of the file, and
 * its status flags, as far as this process and the kernel can set them. */
int fan_real_twin(struct fan_file *file);

/* Returns an O_PATH descriptor for a file that was opened with O_PATH: of a file or a symbolic link
 * that looks like the mount's. */
int fan_real_path(struct fan_file *file);

/* Makes an empty file with the name of a copy, for callers that cannot pass on an O_PATH
 * descriptor. Reading it fails with EBADF, writing with EPERM. */
int fan_real_name(const struct fan_file *file);

/* Makes a memory file with `bytes` of the file from `offset` on; the range must be inside the file.
 * The memory file can be sealed, and its name is FAN_MAP_COPY (mapping.h). */
int fan_real_part(struct fan_file *file, int64_t offset, size_t bytes);

/* Makes the new file `path` with the content of `file` and `mode`. Returns 0, or -errno and leaves
 * no new file; -EEXIST if the path exists already. */
int fan_real_file(struct fan_file *file, const char *path, unsigned mode);
