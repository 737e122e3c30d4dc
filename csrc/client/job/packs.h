/*
 * The packs of a dataset as this process has them open: mapped where a staged copy lies on this
 * node, else read through descriptors, of which some are kept.
 */
#ifndef FAN_CLIENT_PACKS_H
#define FAN_CLIENT_PACKS_H

#include <stdint.h>

#include "job.h"

/* How many packs used in place keep a descriptor open; the others are opened for each read. */
enum { FAN_PACK_FDS_MAX = 64 };

/* Where a pack is read from: its copy of this node's, whole or in part, or where the dataset lies
 * for all. */
enum fan_pack_copy { FAN_PACK_STAGED = 0, FAN_PACK_SHARED = 1, FAN_PACK_PARTIAL = 2 };

/* The mapping of staged pack `pack`, or NULL when it is not staged or cannot be mapped. */
const char *fan_pack_map(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack);

/* The mapping of a pack of which a part is on this node, among that record `id`; NULL where the
 * record is not, or the pack cannot be mapped. */
const char *fan_pack_map_partial(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack,
                                 uint64_t id);

/* Opens that pack for a moment, where it is the one whose records are known; the caller closes it.
 * A descriptor or -errno. */
int fan_pack_open_partial(const struct fan_view *view, struct fan_dataset *dataset, uint32_t pack);

/* A parked descriptor of a copy of pack `pack`. -EMFILE when enough are parked, or in a vfork
 * child, whose descriptors are not its parent's; -EIO. */
int fan_pack_fd(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack,
                enum fan_pack_copy copy);

/* Opens a copy of the pack for a moment; the caller closes it. A descriptor or -errno. */
int fan_pack_open(const struct fan_view *view, uint32_t pack, enum fan_pack_copy copy);

#endif
