/*
 * This process's open packs of a dataset: mapped if a staged copy lies on this node, else read
 * through descriptors, some of which stay open.
 */
#pragma once

#include <stdint.h>

#include "job.h"

/* How many packs used in place keep a descriptor open; the others are opened for each read. */
enum { FAN_PACK_FDS_MAX = 64 };

/* The copy from which a pack is read: this node's own, whole or in part, or the dataset's on the
 * shared file system. */
enum fan_pack_copy { FAN_PACK_STAGED = 0, FAN_PACK_SHARED = 1, FAN_PACK_PARTIAL = 2 };

/* Returns the mapping of staged pack `pack`, or NULL if it is not staged or cannot be mapped. */
const char *fan_pack_map(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack);

/* Returns the mapping of a pack that is on this node in part, if that part contains record `id`.
 * NULL if it does not, or the pack cannot be mapped. */
const char *fan_pack_map_partial(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack,
                                 uint64_t id);

/* Returns the mapping of a pack that another rank of this node has staged, whole or in part, if the
 * record's bytes there are checked; else NULL. It stays mapped if that rank ends. */
const char *fan_pack_map_neighbour(const struct fan_view *view, const struct fan_dataset *dataset,
                                   uint32_t pack, uint64_t id);

/* Opens the file of a pack that this rank has, whole or in part: of a part only the file for which
 * the list of resident records was made. Returns a descriptor, which the caller closes, or -errno.
 */
int fan_pack_open_here(const struct fan_view *view, struct fan_dataset *dataset, uint32_t pack);

/* Opens the file that fan_pack_map_neighbour maps. Returns a descriptor, which the caller closes,
 * or -errno. */
int fan_pack_open_neighbour(const struct fan_view *view, const struct fan_dataset *dataset,
                            uint32_t pack, uint64_t id);

/* Returns whether a path is that of a pack in a directory. */
bool fan_is_pack_in(const char *path, const struct fan_text *folder);

/* Returns whether a path is that of a pack of a neighbour whose packs this process has used. */
bool fan_is_pack_of_neighbour(const char *path);

/* Returns a descriptor of this copy of `pack`, which the library keeps open (park.h). Returns
 * -EMFILE if the library keeps none and enough other packs have one, or if the caller is a vfork
 * child, whose new descriptors its parent does not have; -EIO if the pack cannot be opened. */
int fan_pack_fd(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack,
                enum fan_pack_copy copy);

/* Opens a copy of the pack for one read. Returns a descriptor, which the caller closes, or
 * -errno. */
int fan_pack_open(const struct fan_view *view, uint32_t pack, enum fan_pack_copy copy);
