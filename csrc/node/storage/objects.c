#include "objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mounts.h"

/* Who still uses a read, and how far it is. TAKEN: a fetching thread will end it. COPYING: it
 * copies now, so the reader must wait. LEFT: the reader has gone; the fetching thread frees it. */
enum read_state { WAITING, TAKEN, COPYING, DONE, LEFT };

struct fan_object_read {
    struct fan_queued link; /* first: queues hold pointers to it */
    const struct fan_fetch_request *request;
    void *to;
    uint64_t bytes;
    pthread_cond_t *given;
    enum read_state state;
    int error;
};

void fan_objects_init(struct fan_objects *objects)
{
    *objects = (struct fan_objects){.ending = false};
    pthread_mutex_init(&objects->lock, NULL);
    pthread_cond_init(&objects->asked, NULL);
    for (unsigned i = 0; i < FAN_OBJECTS_GIVEN; i++)
        pthread_cond_init(&objects->given[i], NULL);
}

void fan_objects_fini(struct fan_objects *objects)
{
    for (unsigned i = 0; i < FAN_OBJECTS_GIVEN; i++)
        pthread_cond_destroy(&objects->given[i]);
    pthread_cond_destroy(&objects->asked);
    pthread_mutex_destroy(&objects->lock);
}

/* Waits until a read is done or the node ends; the caller holds the lock. Returns whether the
 * reader still owns the read. */
static bool wait_for(struct fan_objects *objects, struct fan_object_read *read)
{
    while (read->state == COPYING || (read->state != DONE && !objects->ending))
        pthread_cond_wait(read->given, &objects->lock);
    if (read->state == WAITING)
        fan_queue_remove(&objects->waiting[read->request->urgency], &read->link);
    if (read->state != TAKEN)
        return true;
    read->state = LEFT;
    return false;
}

struct fan_object_read *fan_object_ask(struct fan_objects *objects,
                                       const struct fan_fetch_request *request, void *to)
{
    struct fan_object_read *read = malloc(sizeof(*read));
    if (read == NULL)
        return NULL;
    *read = (struct fan_object_read){.request = request,
                                     .to = to,
                                     .bytes = request->bytes,
                                     .state = WAITING,
                                     .error = -ECANCELED};
    pthread_mutex_lock(&objects->lock);
    read->given = &objects->given[objects->asked_count++ % FAN_OBJECTS_GIVEN];
    fan_queue_put(&objects->waiting[request->urgency], &read->link);
    pthread_cond_signal(&objects->asked);
    pthread_mutex_unlock(&objects->lock);
    return read;
}

int fan_object_wait(struct fan_objects *objects, struct fan_object_read *read)
{
    if (read == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&objects->lock);
    bool own = wait_for(objects, read);
    pthread_mutex_unlock(&objects->lock);
    int rc = own ? read->error : -ECANCELED;
    if (own)
        free(read);
    return rc;
}

static struct fan_object_read *take_first(struct fan_objects *objects)
{
    struct fan_queued *first = NULL;
    for (unsigned urgency = 0; urgency < FAN_URGENCIES && first == NULL; urgency++)
        first = fan_queue_take(&objects->waiting[urgency]);
    return (struct fan_object_read *)first;
}

/* Describes a read for the thread that fetches it. Returns 0 or -errno. */
static int describe(const struct fan_mounts *mounts, const struct fan_object_read *read,
                    struct fan_object_part *part, char *path, uint32_t room)
{
    const struct fan_fetch_request *request = read->request;
    const struct fan_node_mount *mount = &mounts->mounts[request->mount];
    const struct fan_record *record = fan_mount_record(mount, request->record);
    int64_t length = fan_index_path(&mount->index, request->record, path, room);
    if (length < 0)
        return (int)length;
    *part = (struct fan_object_part){.ticket = (uint64_t)(uintptr_t)read,
                                     .offset = request->offset - record->offset,
                                     .bytes = request->bytes,
                                     .size = record->logical_size,
                                     .state = record->checksum,
                                     .mount = request->mount,
                                     .path_bytes = (uint32_t)length};
    return 0;
}

/* Ends a read; the caller holds the lock. */
static void finish(struct fan_object_read *read, int error)
{
    if (read->state == LEFT) {
        free(read);
        return;
    }
    read->error = error;
    read->state = DONE;
    pthread_cond_broadcast(read->given);
}

int fan_objects_take(struct fan_mounts *mounts, struct fan_object_part *part, char *path,
                     uint32_t room)
{
    struct fan_objects *objects = &mounts->objects;
    int rc = -EIO;
    pthread_mutex_lock(&objects->lock);
    while (rc != 0 && !objects->ending) {
        struct fan_object_read *read = take_first(objects);
        if (read == NULL) {
            pthread_cond_wait(&objects->asked, &objects->lock);
            continue;
        }
        rc = describe(mounts, read, part, path, room);
        read->state = TAKEN;
        if (rc != 0)
            finish(read, -EIO);
    }
    pthread_mutex_unlock(&objects->lock);
    return rc == 0 ? 0 : -ESHUTDOWN;
}

void fan_objects_give(struct fan_objects *objects, uint64_t ticket, const void *from, int error)
{
    struct fan_object_read *read = (struct fan_object_read *)(uintptr_t)ticket;
    pthread_mutex_lock(&objects->lock);
    if (read->state == TAKEN && error == 0) {
        read->state = COPYING;
        pthread_mutex_unlock(&objects->lock);
        memcpy(read->to, from, read->bytes);
        pthread_mutex_lock(&objects->lock);
    }
    finish(read, error);
    pthread_mutex_unlock(&objects->lock);
}

void fan_objects_end(struct fan_objects *objects)
{
    pthread_mutex_lock(&objects->lock);
    objects->ending = true;
    pthread_cond_broadcast(&objects->asked);
    for (unsigned i = 0; i < FAN_OBJECTS_GIVEN; i++)
        pthread_cond_broadcast(&objects->given[i]);
    pthread_mutex_unlock(&objects->lock);
}
