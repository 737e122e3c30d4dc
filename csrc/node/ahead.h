/*
 * Bringing this rank's share to the local disk ahead of its reading: records in the order that the
 * caller of node.h gave, run by run, a few at a time, so that threads are left for what programs
 * wait for.
 */
#ifndef FAN_NODE_AHEAD_H
#define FAN_NODE_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

struct fan_node;

/* What is left of one list; next: the first that was not begun. running: runs of it that reader
 * threads are at: the list stays for as long. first: it is for fan_ahead_first. */
struct fan_ahead_list {
    uint64_t *records;
    uint64_t count;
    uint64_t next;
    uint32_t mount;
    uint32_t number;
    uint32_t running;
    bool first;
    struct fan_ahead_list *after;
};

/* running: of all lists. most: how many there may be. lists: how many there have been. */
struct fan_ahead {
    struct fan_ahead_list *first;
    struct fan_ahead_list **end;
    uint32_t running;
    uint32_t most;
    uint32_t lists;
};

void fan_ahead_init(struct fan_ahead *ahead);
void fan_ahead_fini(struct fan_ahead *ahead);

/* Appends a list; what is no record of a file with content is left out. 0 or -ENOMEM. */
int fan_ahead_append(struct fan_node *node, uint32_t mount, const uint64_t *records,
                     uint64_t count);

/* The same, before all that was appended and behind what was first already. The number of the list,
 * above 0, or -ENOMEM. */
int fan_ahead_first(struct fan_node *node, uint32_t mount, const uint64_t *records, uint64_t count);

/* Appends all records of whole packs that an earlier job left: they are checked. 0 or -ENOMEM. */
int fan_ahead_check_kept(struct fan_node *node);

/* Begins what may be begun. Whether there is more to be looked at. */
bool fan_ahead_advance(struct fan_node *node);

/* Whether something of a list is still to be brought. */
bool fan_ahead_goes_on(const struct fan_ahead *ahead, uint32_t number);

/* Whether all was brought that could be. */
bool fan_ahead_is_done(const struct fan_ahead *ahead);

#endif
