/* The counts of the node daemon's core (node.h). */
#pragma once

#include <stdint.h>

/* cffi: begin */
/* Latencies are counted in bins of powers of two: bin i holds [2^i, 2^(i+1)) microseconds. */
enum { FAN_LATENCY_BINS = 32 };

struct fan_node_stats {
    uint64_t fetches; /* blocks requested from other ranks, with repeats */
    uint64_t fetched_bytes;
    uint64_t coalesced; /* wants that joined a fetch under way */
    uint64_t ahead;     /* blocks fetched before any client wanted them */
    uint64_t ahead_bytes;
    uint64_t ahead_late;         /* those of them that were wanted before they arrived */
    uint64_t ahead_unread_bytes; /* fetched for an order, whose loader did not read them */
    uint64_t hints_dropped;      /* hints whose blocks, all or some, found no room */
    uint64_t retries;            /* attempts at another replica */
    uint64_t timeouts;     /* attempts past their deadline, or a fifth of it at a silent rank */
    uint64_t failures;     /* wants answered with FAILED */
    uint64_t shared_reads; /* reads of the shared file system, and their bytes */
    uint64_t shared_bytes;
    uint64_t kept_records; /* records copied to the local disk, into partial packs */
    uint64_t kept_bytes;
    uint64_t full_disks;      /* datasets for which the disk was full */
    uint64_t damaged_records; /* records that were found to be damaged */
    uint64_t mended_records;  /* wrong records of an earlier job, fetched again */
    uint64_t filling_ahead;   /* whether records are still being copied ahead of reads */
    uint64_t served;          /* requests of other ranks answered with bytes */
    uint64_t served_bytes;
    uint64_t refused; /* requests of other ranks refused */
    uint64_t evicted;
    uint64_t quarantined; /* blocks in quarantine now */
    uint64_t outstanding; /* fetches under way now, and reads of the shared file system */
    uint64_t resident_bytes;
    uint64_t peak_resident_bytes;
    uint64_t cache_bytes;
    uint64_t sessions;
    uint64_t lost_ranks;                     /* ranks that no longer answer */
    uint64_t latency_bins[FAN_LATENCY_BINS]; /* latencies of fetched blocks, until the answer */
};
/* cffi: end */
