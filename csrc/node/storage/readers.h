/*
 * Threads that wait for disks, so that the node thread never does: it hands a reading over, goes on
 * with what is at hand, and takes the reading back when the bell rings. Threads are started as
 * readings wait, and stay.
 */
#ifndef FAN_NODE_READERS_H
#define FAN_NODE_READERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../machine/queue.h"
#include "../machine/transport.h"

/* Depth at which local disks reach their rate; how many threads may be at what nobody waited for
 * when it was begun; how many demands go before one of those that wait. */
enum { FAN_READERS_MAX = 16, FAN_READERS_AHEAD_MAX = 8, FAN_READERS_PASSED_MAX = 32 };

struct fan_node;

/* Embedded in what its owner wants to be read. urgency: demands are read first. read: what a
 * reader's thread does, without any lock of the node's; 0 or -errno, which goes to `error`. done:
 * what the node thread does then, and frees it. */
struct fan_reading {
    struct fan_queued link;
    enum fan_urgency urgency;
    int (*read)(struct fan_reading *reading);
    void (*done)(struct fan_node *node, struct fan_reading *reading);
    int error;
};

/* waiting: by urgency. ahead: how many threads are at what nobody waited for when they began.
 * passed: how many demands went before what waits there. done_count: of `done`, to be looked at
 * without the lock. bell: what a reader's thread calls when something is done. */
struct fan_readers {
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct fan_queue waiting[FAN_URGENCIES];
    struct fan_queue done;
    uint32_t done_count;
    void (*bell)(void *of);
    void *of;
    unsigned threads;
    unsigned idle;
    unsigned ahead;
    unsigned passed;
    bool ending;
};

void fan_readers_init(struct fan_readers *readers, void (*bell)(void *of), void *of);

/* Has the threads end, which finish what they are at; what waits is done with -ECANCELED. Does not
 * wait for them. */
void fan_readers_end(struct fan_readers *readers);

/* Whether there are no threads, and all readings were done. A thread that hangs in a file system
 * may stay, and then everything that it may touch has to. */
bool fan_readers_have_ended(struct fan_readers *readers);

/* Of readers that have ended. */
void fan_readers_fini(struct fan_readers *readers);

/* Hands a reading over. 0, -EAGAIN where not one thread can be had, -ESHUTDOWN once they end. */
int fan_readers_give(struct fan_readers *readers, struct fan_reading *reading);

/* How many wait for a thread. */
unsigned fan_readers_waiting(struct fan_readers *readers);

/* Somebody waits for a reading by now: it goes before all that nobody does, unless it has begun. */
void fan_readers_hurry(struct fan_readers *readers, struct fan_reading *reading);

/* Takes a reading back that no thread has begun; `done` is not called. Whether that was so. */
bool fan_readers_take_back(struct fan_readers *readers, const struct fan_reading *reading);

/* Calls `done` of the readings that are. Whether there were any. */
bool fan_readers_advance(struct fan_readers *readers, struct fan_node *node);

#endif
