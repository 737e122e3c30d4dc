/*
 * The original of an input whose dataset was listed rather than packed. At its first open in the
 * job it is compared with the listing. If it has changed, programs get the original itself, a file
 * of the kernel, and its attributes: never bytes of two versions.
 */
#ifndef FAN_CLIENT_ORIGINAL_H
#define FAN_CLIENT_ORIGINAL_H

#include "../files/file.h"
#include "../paths/resolve.h"

/* Whether the original of a file was found to differ from the listing, by any process of the node.
 * Costs no system call. */
static inline bool fan_original_has_changed(const struct fan_view *view, uint64_t id)
{
    return fan_view_bit(view->damage, id);
}

/* Whether the original of a file differs from the listing; looks at it if no process of the node
 * has looked yet. Only for a planned dataset. */
bool fan_original_differs(struct fan_view *view, const struct fan_dataset *dataset, uint64_t id);

/* Opens the original of a file. Returns a descriptor of the kernel's file, or -errno. */
int fan_original_open(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                      int flags);

/* stat(2) of the original of a file. Returns 0 or -errno. */
int fan_original_stat(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                      struct stat *st);

/* Reads bytes of the original of an open file that no daemon can bring. Returns 0, or -EIO also if
 * the original is not as it was listed. */
int fan_original_read(const struct fan_file *file, char *to, uint64_t offset, uint64_t bytes);

#endif
