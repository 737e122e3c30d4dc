/*
 * The original file of an input, for a dataset that was listed rather than packed. At its first
 * open in the job it is compared with the listing. If it has changed, programs get the original
 * itself, through the kernel, with its attributes: never bytes of two versions.
 */
#pragma once

#include "../files/file.h"
#include "../paths/resolve.h"

/* Returns whether any process of the node has found that the original of a file differs from the
 * listing. Takes no system call. */
static inline bool fan_original_has_changed(const struct fan_view *view, uint64_t id)
{
    return fan_view_bit(view->damage, id);
}

/* Returns whether the original of a file differs from the listing; compares them if no process of
 * the node has done so yet. Only for a dataset that has originals. */
bool fan_original_differs(struct fan_view *view, struct fan_dataset *dataset, uint64_t id);

/* Opens the original of a file. Returns a descriptor, or -errno. */
int fan_original_open(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                      int flags);

/* Calls stat(2) for the original of a file. Returns 0 or -errno. */
int fan_original_stat(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                      struct stat *st);

/* Reads bytes of an open file's original, if no daemon can send them. Returns 0; -EIO, also if the
 * original has changed since it was listed. */
int fan_original_pread(const struct fan_file *file, char *to, uint64_t offset, uint64_t bytes);
