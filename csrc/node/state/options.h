/* The options of the node daemon's core (node.h). */
#pragma once

#include <stdint.h>

#include "../machine/object_part.h"

/* cffi: begin */
struct fan_node_options {
    const char *job_segment;     /* path of the job segment, which must be complete */
    uint64_t cache_bytes;        /* the most bytes of content that stay in the cache */
    uint64_t deadline_ns;        /* limit of one attempt at one rank */
    uint64_t shared_deadline_ns; /* limit of one read of the shared file system */
    uint32_t policy;             /* enum fan_policy */
    uint32_t rank;
    uint32_t world_size;
    uint32_t idle_sleep_us; /* the longest sleep of the thread if nothing happens */
    fan_fetch_object *fetch_object; /* readers' threads call it; NULL if no mount is a bucket */
};
/* cffi: end */
