/*
 * Reading the names segment (format/names_format.h): what an output's name stands for, or that
 * there is none, without asking the node daemon. Nothing here allocates, locks or blocks; it is
 * safe in signal handlers and after fork. Whatever a daemon that was killed left half written, no
 * read leaves the mapping.
 */
#ifndef FAN_COMMON_NAMES_H
#define FAN_COMMON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../format/names_format.h"

/* A mapped segment. bytes: of the mapping. */
struct fan_names {
    struct fan_names_header *header;
    uint64_t bytes;
};

/* A path in a mount, in normal form: the first `base_bytes` of it are a directory of the dataset,
 * what follows is no input. */
struct fan_names_path {
    uint32_t mount;
    const char *text;
    size_t bytes;
    size_t base_bytes;
};

/* The daemon has to be asked. No errno. */
enum { FAN_NAMES_ASK = -0x10001 };

/* Checks the mapping of a segment. 0 or -EINVAL. */
int fan_names_attach(struct fan_names *names, void *base, uint64_t bytes);

/* What a path stands for. `follow`: through a link at its end. 0 with `attr`, and of a link, its
 * target with a NUL in the `room` bytes at `target`, away from the path; -ENOENT, -ENOTDIR;
 * FAN_NAMES_ASK. */
int fan_names_look(const struct fan_names *names, const struct fan_names_path *path, bool follow,
                   struct fan_output_attr *attr, char *target, size_t room);

/* Bytes for the listing of a directory of which all names are here: some more than it takes, as
 * names may be added meanwhile. FAN_NAMES_ASK: somebody is writing in it, too. */
int64_t fan_names_list_bytes(const struct fan_names *names, const struct fan_names_path *path);

/* Its listing, as FAN_OUTPUT_LIST has it. The length; FAN_NAMES_ASK, also where it does not fit. */
int64_t fan_names_list(const struct fan_names *names, const struct fan_names_path *path, char *to,
                       size_t room);

/* Whether the daemon, which keeps the segment up to date, is there. */
bool fan_names_kept(const struct fan_names *names);

/* Whether no change is under way that the daemon was asked for. */
bool fan_names_settled(const struct fan_names *names);

/* A change is about to be asked for. */
static inline void fan_names_begin_change(const struct fan_names *names)
{
    __atomic_fetch_add(&names->header->begun, 1, __ATOMIC_SEQ_CST);
}

/* The home rank of a directory, as fanstore/outputs/model/entries.py has it. Pure. */
uint32_t fan_names_home(const struct fan_names *names, uint32_t mount, const char *directory,
                        size_t bytes);

/* The hash of a path. Pure. */
uint64_t fan_names_hash(uint32_t mount, const char *path, size_t bytes);

/* Bytes of a name in a listing. */
static inline uint64_t fan_names_entry_bytes(uint64_t name_bytes)
{
    return sizeof(struct fan_output_name) + (name_bytes + 7) / 8 * 8;
}

#endif
