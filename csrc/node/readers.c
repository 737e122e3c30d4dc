#include "readers.h"

#include <errno.h>

#include "shared.h"
#include "start_thread.h"

static void put(struct fan_readings *readings, struct fan_reading *reading)
{
    reading->next = NULL;
    *readings->end = reading;
    readings->end = &reading->next;
    readings->count++;
}

static struct fan_reading *take_first(struct fan_readings *readings)
{
    struct fan_reading *reading = readings->first;
    readings->first = reading->next;
    if (readings->first == NULL)
        readings->end = &readings->first;
    readings->count--;
    return reading;
}

static void finish(struct fan_readers *readers, struct fan_reading *reading, int error)
{
    reading->error = error;
    put(&readers->done, reading);
    fan_release32(&readers->done_count, readers->done.count);
}

/* The reading that comes next, or NULL when the threads are to end. */
static struct fan_reading *wait_for_reading(struct fan_readers *readers)
{
    readers->idle++;
    while (readers->waiting.count == 0 && !readers->ending)
        pthread_cond_wait(&readers->given, &readers->lock);
    readers->idle--;
    return readers->ending ? NULL : take_first(&readers->waiting);
}

static void *run(void *argument)
{
    struct fan_readers *readers = argument;
    struct fan_reading *reading;
    pthread_setname_np(pthread_self(), "fanstore-reader");
    pthread_mutex_lock(&readers->lock);
    while ((reading = wait_for_reading(readers)) != NULL) {
        pthread_mutex_unlock(&readers->lock);
        int error = reading->read(reading);
        pthread_mutex_lock(&readers->lock);
        finish(readers, reading, error);
        readers->bell(readers->of);
    }
    readers->threads--;
    pthread_mutex_unlock(&readers->lock);
    return NULL;
}

/* Nobody joins a thread that may hang in a file system. */
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
    if (!readers->ending && readers->waiting.count >= readers->idle &&
        readers->threads < FAN_READERS_MAX)
        start_thread(readers);
    if (readers->ending)
        rc = -ESHUTDOWN;
    else if (readers->threads == 0)
        rc = -EAGAIN;
    if (rc == 0) {
        put(&readers->waiting, reading);
        pthread_cond_signal(&readers->given);
    }
    pthread_mutex_unlock(&readers->lock);
    return rc;
}

unsigned fan_readers_waiting(struct fan_readers *readers)
{
    pthread_mutex_lock(&readers->lock);
    unsigned count = readers->waiting.count;
    pthread_mutex_unlock(&readers->lock);
    return count;
}

bool fan_readers_take_back(struct fan_readers *readers, const struct fan_reading *reading)
{
    pthread_mutex_lock(&readers->lock);
    struct fan_readings *waiting = &readers->waiting;
    struct fan_reading **at = &waiting->first;
    while (*at != NULL && *at != reading)
        at = &(*at)->next;
    bool found = *at != NULL;
    if (found) {
        *at = reading->next;
        if (reading->next == NULL)
            waiting->end = at;
        waiting->count--;
    }
    pthread_mutex_unlock(&readers->lock);
    return found;
}

bool fan_readers_advance(struct fan_readers *readers, struct fan_node *node)
{
    if (fan_acquire32(&readers->done_count) == 0)
        return false;
    pthread_mutex_lock(&readers->lock);
    struct fan_reading *first = readers->done.first;
    readers->done = (struct fan_readings){.end = &readers->done.first};
    fan_release32(&readers->done_count, 0);
    pthread_mutex_unlock(&readers->lock);
    while (first != NULL) {
        struct fan_reading *reading = first;
        first = reading->next;
        reading->done(node, reading);
    }
    return true;
}

void fan_readers_end(struct fan_readers *readers)
{
    pthread_mutex_lock(&readers->lock);
    readers->ending = true;
    while (readers->waiting.count > 0)
        finish(readers, take_first(&readers->waiting), -ECANCELED);
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
    *readers = (struct fan_readers){.bell = bell, .of = of};
    readers->waiting.end = &readers->waiting.first;
    readers->done.end = &readers->done.first;
    pthread_mutex_init(&readers->lock, NULL);
    pthread_cond_init(&readers->given, NULL);
}

void fan_readers_fini(struct fan_readers *readers)
{
    pthread_cond_destroy(&readers->given);
    pthread_mutex_destroy(&readers->lock);
}
