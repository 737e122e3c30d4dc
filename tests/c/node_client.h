/*
 * A client of the block cache in its shortest form, written from csrc/format/cache_format.h alone:
 * a contrast to the one in csrc/client.
 */
#pragma once

#include <stdint.h>

#include "../../csrc/format/cache_format.h"
#include "../../csrc/node/machine/piece.h"
#include "../../csrc/node/node.h"

struct node_client {
    struct fan_node *node;
    char *base;
    uint64_t bytes;
    struct fan_cache_header *header;
    struct fan_session *session;
    uint32_t number;
};

/* Begins a session and maps the cache. */
void client_open(struct node_client *client, struct fan_node *node);

/* Ends the session: what it has is undone. */
void client_close(struct node_client *client);

/* Wants a block with a free pin of the caller's; does not wait. */
void client_want(struct node_client *client, unsigned pin, uint64_t file, uint64_t block);

/* Wants granules of a block of file `record` of mount 0 (cache_format.h). Compares those that a pin
 * holds, in place, and returns which they are. */
void client_want_part(struct node_client *client, unsigned pin, uint64_t record, uint64_t block,
                      uint32_t from, uint32_t count);
struct fan_piece client_compare_part(struct node_client *client, unsigned pin, uint64_t record,
                                     uint64_t block);

/* Gives a hint. 0, or -EAGAIN: the daemon has not taken those before it. */
int client_hint(struct node_client *client, uint64_t file, uint64_t block, uint64_t count);

/* Waits until a pin is not WANTED. 0, or the -errno it failed with; the test ends after a minute. */
int client_wait(struct node_client *client, unsigned pin);

/* Pins a block that may be there already, with pin `pin`. 0 or -errno. */
int client_pin(struct node_client *client, unsigned pin, uint64_t file, uint64_t block);
void client_unpin(struct node_client *client, unsigned pin);

/* Compares a block that a pin holds, in place. */
void client_compare(struct node_client *client, unsigned pin, uint64_t record, uint64_t block);

/* Opens, reads, compares byte by byte and closes file `record` of mount 0, with pin `pin`. 0, or
 * the -errno of the first block that failed. */
int client_read(struct node_client *client, unsigned pin, uint64_t record);

/* Enters a file among the session's open ones: its place, or FAN_SESSION_FILES. Says that it is
 * closed. */
unsigned client_note(struct node_client *client, uint64_t file);
void client_drop(struct node_client *client, unsigned place);
