#include "readers.h"

#include <errno.h>

#include "../machine/shared.h"
#include "../machine/start_thread.h"

static void finish(struct fan_readers *readers, struct fan_reading *reading, int error)
{
    reading->error = error;
    fan_queue_put(&readers->done, &reading->link);
    fan_release32(&readers->done_count, readers->done.count);
}

static unsigned waiting_of(const struct fan_readers *readers)
{
    return readers->waiting[FAN_DEMAND].count + readers->waiting[FAN_AHEAD].count;
}

/* The link is the reading's first member. */
static struct fan_reading *take_first(struct fan_queue *readings)
{
    return (struct fan_reading *)fan_queue_take(readings);
}

/* Returns the next reading that may begin, or NULL. */
static struct fan_reading *take_next(struct fan_readers *readers)
{
    bool may = readers->waiting[FAN_AHEAD].count > 0 && readers->ahead < readers->ahead_most;
    bool demands = readers->waiting[FAN_DEMAND].count > 0;
    if (may && (!demands || readers->passed >= FAN_READERS_PASSED_MAX)) {
        readers->passed = 0;
        return take_first(&readers->waiting[FAN_AHEAD]);
    }
    readers->passed += may;
    return take_first(&readers->waiting[FAN_DEMAND]);
}

/* Waits for a reading and returns it; NULL if the threads must end. */
static struct fan_reading *wait_for_reading(struct fan_readers *readers)
{
    struct fan_reading *reading;
    readers->idle++;
    while ((reading = take_next(readers)) == NULL && !readers->ending)
        pthread_cond_wait(&readers->given, &readers->lock);
    readers->idle--;
    return reading;
}

static void *run(void *argument)
{
    struct fan_readers *readers = argument;
    struct fan_reading *reading;
    pthread_setname_np(pthread_self(), "fanstore-reader");
    pthread_mutex_lock(&readers->lock);
    while ((reading = wait_for_reading(readers)) != NULL) {
        bool ahead = reading->urgency == FAN_AHEAD;
        readers->ahead += ahead;
        readers->busy++;
        pthread_mutex_unlock(&readers->lock);
        int error = reading->read(reading);
        pthread_mutex_lock(&readers->lock);
        readers->ahead -= ahead;
        readers->busy--;
        finish(readers, reading, error);
        readers->bell(readers->of);
    }
    readers->threads--;
    pthread_mutex_unlock(&readers->lock);
    return NULL;
}

/* Starts a detached thread: joining one that hangs in a file system would hang, too. */
static void start_thread(struct fan_readers *readers)
{
    pthread_t thread;
    if (fan_start_thread(&thread, run, readers) != 0)
        return;
    pthread_detach(thread);
    readers->threads++;
}

int fan_readers_give(struct fan_readers *readers, struct fan_reading *reading)
{
    int rc = 0;
    pthread_mutex_lock(&readers->lock);
    if (!readers->ending && waiting_of(readers) >= readers->idle &&
        readers->threads < readers->most)
        start_thread(readers);
    if (readers->ending)
        rc = -ESHUTDOWN;
    else if (readers->threads == 0)
        rc = -EAGAIN;
    if (rc == 0) {
        fan_queue_put(&readers->waiting[reading->urgency], &reading->link);
        pthread_cond_signal(&readers->given);
    }
    pthread_mutex_unlock(&readers->lock);
    return rc;
}

unsigned fan_readers_waiting(struct fan_readers *readers)
{
    pthread_mutex_lock(&readers->lock);
    unsigned count = waiting_of(readers);
    pthread_mutex_unlock(&readers->lock);
    return count;
}

unsigned fan_readers_under_way(struct fan_readers *readers)
{
    pthread_mutex_lock(&readers->lock);
    unsigned count = waiting_of(readers) + readers->busy;
    pthread_mutex_unlock(&readers->lock);
    return count;
}

void fan_readers_hurry(struct fan_readers *readers, struct fan_reading *reading)
{
    pthread_mutex_lock(&readers->lock);
    if (reading->urgency == FAN_AHEAD &&
        fan_queue_remove(&readers->waiting[FAN_AHEAD], &reading->link)) {
        reading->urgency = FAN_DEMAND;
        fan_queue_put(&readers->waiting[FAN_DEMAND], &reading->link);
        pthread_cond_signal(&readers->given);
    }
    pthread_mutex_unlock(&readers->lock);
}

bool fan_readers_take_back(struct fan_readers *readers, const struct fan_reading *reading)
{
    pthread_mutex_lock(&readers->lock);
    bool found = fan_queue_remove(&readers->waiting[reading->urgency], &reading->link);
    pthread_mutex_unlock(&readers->lock);
    return found;
}

bool fan_readers_advance(struct fan_readers *readers, struct fan_node *node)
{
    if (fan_acquire32(&readers->done_count) == 0)
        return false;
    pthread_mutex_lock(&readers->lock);
    struct fan_queue done = readers->done;
    readers->done = (struct fan_queue){0};
    fan_release32(&readers->done_count, 0);
    pthread_mutex_unlock(&readers->lock);
    for (struct fan_reading *reading; (reading = take_first(&done)) != NULL;)
        reading->done(node, reading);
    return true;
}

void fan_readers_end(struct fan_readers *readers)
{
    pthread_mutex_lock(&readers->lock);
    readers->ending = true;
    for (unsigned urgency = 0; urgency < FAN_URGENCIES; urgency++) {
        while (readers->waiting[urgency].count > 0)
            finish(readers, take_first(&readers->waiting[urgency]), -ECANCELED);
    }
    pthread_cond_broadcast(&readers->given);
    pthread_mutex_unlock(&readers->lock);
}

bool fan_readers_have_ended(struct fan_readers *readers)
{
    pthread_mutex_lock(&readers->lock);
    bool ended = readers->threads == 0 && readers->done.count == 0;
    pthread_mutex_unlock(&readers->lock);
    return ended;
}

void fan_readers_init(struct fan_readers *readers, void (*bell)(void *of), void *of)
{
    *readers = (struct fan_readers){
        .most = FAN_READERS_MAX, .ahead_most = FAN_READERS_AHEAD_MAX, .bell = bell, .of = of};
    pthread_mutex_init(&readers->lock, NULL);
    pthread_cond_init(&readers->given, NULL);
}

void fan_readers_widen(struct fan_readers *readers)
{
    readers->most = FAN_READERS_FAR_MAX;
    readers->ahead_most = FAN_READERS_FAR_AHEAD_MAX;
}

void fan_readers_fini(struct fan_readers *readers)
{
    pthread_cond_destroy(&readers->given);
    pthread_mutex_destroy(&readers->lock);
}
