/*
 * Runs threads that wait for disks, so that the node thread never does. The node thread gives a
 * reading to them, does other work, and gets the reading back when the bell rings. A thread is
 * started when a reading would otherwise have to wait, and then stays.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../machine/queue.h"
#include "../machine/transport.h"

/* MAX: the queue depth at which local disks reach their full rate. AHEAD_MAX: how many threads may
 * do readings for which no client waited when they began. FAR_MAX, FAR_AHEAD_MAX: the same where a
 * server answers, after some time, many readings side by side. PASSED_MAX: after how many demands
 * one reading that nobody waits for gets its turn. */
enum {
    FAN_READERS_MAX = 16,
    FAN_READERS_AHEAD_MAX = 8,
    FAN_READERS_FAR_MAX = 64,
    FAN_READERS_FAR_AHEAD_MAX = 48,
    FAN_READERS_PASSED_MAX = 32
};

struct fan_node;

/* One reading, embedded in its owner's struct. urgency: demands are read first. read: a reader's
 * thread calls it, without any lock of the node; its result, 0 or -errno, is stored in `error`.
 * done: the node thread calls it afterwards; it frees the reading. */
struct fan_reading {
    struct fan_queued link;
    enum fan_urgency urgency;
    int (*read)(struct fan_reading *reading);
    void (*done)(struct fan_node *node, struct fan_reading *reading);
    int error;
};

/* most, ahead_most: how many threads there may be, and how many of them may do readings for which
 * no client waited when they began. waiting: by urgency. busy: how many threads read now. ahead:
 * how many threads do readings for which no client waited when they began. passed: how many demands
 * have overtaken waiting readings of lower urgency. done_count: the length of `done`, readable
 * without the lock. bell: a reader's thread calls it when a reading is done. */
struct fan_readers {
    pthread_mutex_t lock;
    pthread_cond_t given;
    unsigned most;
    unsigned ahead_most;
    struct fan_queue waiting[FAN_URGENCIES];
    struct fan_queue done;
    uint32_t done_count;
    void (*bell)(void *of);
    void *of;
    unsigned threads;
    unsigned idle;
    unsigned busy;
    unsigned ahead;
    unsigned passed;
    bool ending;
};

void fan_readers_init(struct fan_readers *readers, void (*bell)(void *of), void *of);

/* Allows as many threads as a server far away needs. Call it before any reading is given. */
void fan_readers_widen(struct fan_readers *readers);

/* Tells the threads to finish their current readings and end; does not wait for them. Waiting
 * readings end with -ECANCELED. */
void fan_readers_end(struct fan_readers *readers);

/* Returns whether all threads have ended and all readings are done. A thread that hangs in a file
 * system may remain: do not free the memory that it may use. */
bool fan_readers_have_ended(struct fan_readers *readers);

/* Frees readers that have ended. */
void fan_readers_fini(struct fan_readers *readers);

/* Gives a reading to the threads. Returns 0, -EAGAIN if not a single thread can be started,
 * -ESHUTDOWN after fan_readers_end. */
int fan_readers_give(struct fan_readers *readers, struct fan_reading *reading);

/* Returns how many readings wait for a thread. */
unsigned fan_readers_waiting(struct fan_readers *readers);

/* Returns how many readings wait for a thread or have begun. */
unsigned fan_readers_under_way(struct fan_readers *readers);

/* Makes a reading a demand, because a client waits for it now. Does nothing if it has begun. */
void fan_readers_hurry(struct fan_readers *readers, struct fan_reading *reading);

/* Takes a reading back if no thread has begun it; its `done` is not called. Returns whether it did.
 */
bool fan_readers_take_back(struct fan_readers *readers, const struct fan_reading *reading);

/* Calls `done` for each finished reading. Returns whether there were any. */
bool fan_readers_advance(struct fan_readers *readers, struct fan_node *node);
