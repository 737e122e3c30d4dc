#include "follow.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "../changes/elsewhere.h"
#include "../common/sys.h"
#include "own.h"

enum {
    WAIT_NS = 100000,
    WAITS = 10000,
    WAITS_ELSEWHERE = 100000,
    WAITS_LIVING = 20, /* before it is asked whether who is waited for lives */
    SPARE_UNITS = (512 << 10) / FAN_NAMES_UNIT
};

static void close_for(struct fan_names_writer *writer, enum fan_names_closed how)
{
    __atomic_store_n(&writer->names.header->closed, how, __ATOMIC_SEQ_CST);
}

/* Nobody looks at the segment any more, or changes anything in it that counts. */
static void end(struct fan_names_writer *writer)
{
    struct fan_names_header *header = writer->names.header;
    close_for(writer, FAN_NAMES_NEVER);
    __atomic_fetch_or(&header->log_end, FAN_NAMES_LOG_ENDED, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&header->owner);
    writer->broken = true;
}

/* Waits until no client is changing anything. false: the segment has ended. */
static bool lock(struct fan_names_writer *writer)
{
    struct fan_names_header *header = writer->names.header;
    uint32_t thread = (uint32_t)FAN_SYS(gettid);
    for (unsigned i = 0; !writer->broken && i < WAITS; i++) {
        uint32_t owner = 0;
        if (__atomic_compare_exchange_n(&header->changer, &owner, thread, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return true;
        if (i > WAITS_LIVING && FAN_SYS(tkill, owner, 0) == -ESRCH)
            break;
        struct timespec pause = {0, WAIT_NS};
        FAN_SYS(nanosleep, &pause, NULL);
    }
    if (!writer->broken)
        end(writer);
    return false;
}

static void unlock(struct fan_names_writer *writer)
{
    __atomic_store_n(&writer->names.header->changer, 0, __ATOMIC_RELEASE);
}

/* Waits until what clients had other ranks make is in the log. Those answer, or are lost; what does
 * neither is waited for once. */
static void wait_for_elsewhere(struct fan_names_writer *writer)
{
    uint64_t left = fan_elsewhere_under_way(&writer->names);
    for (unsigned i = 0; left > writer->stuck && i < WAITS_ELSEWHERE; i++) {
        struct timespec pause = {0, WAIT_NS};
        FAN_SYS(nanosleep, &pause, NULL);
        left = fan_elsewhere_under_way(&writer->names);
    }
    writer->stuck = left;
}

void fan_names_let(struct fan_names_writer *writer)
{
    if (writer->broken)
        return;
    fan_names_make_room(writer, 0, 0, SPARE_UNITS);
    close_for(writer, FAN_NAMES_LET);
}

void fan_names_hold(struct fan_names_writer *writer)
{
    if (!writer->broken)
        close_for(writer, FAN_NAMES_HELD);
    if (lock(writer))
        unlock(writer);
    wait_for_elsewhere(writer);
}

static struct fan_name *covered(struct fan_names_writer *writer, uint32_t mount, const char *path,
                                uint32_t path_bytes)
{
    struct fan_table_path at = {mount, path, path_bytes};
    struct fan_name *directory = writer->broken ? NULL : fan_table_find(&writer->names, &at);
    return directory != NULL && (directory->flags & FAN_NAME_COVERED) ? directory : NULL;
}

void fan_names_open_directory(struct fan_names_writer *writer, uint32_t mount, const char *path,
                              uint32_t path_bytes)
{
    struct fan_name *directory = covered(writer, mount, path, path_bytes);
    if (directory != NULL)
        fan_table_set_flags(directory, directory->flags | FAN_NAME_OPEN);
}

void fan_names_close_directory(struct fan_names_writer *writer, uint32_t mount, const char *path,
                               uint32_t path_bytes)
{
    struct fan_name *directory = covered(writer, mount, path, path_bytes);
    if (directory != NULL)
        fan_table_set_flags(directory, directory->flags & ~(uint32_t)FAN_NAME_OPEN);
}

static uint64_t log_end(const struct fan_names_writer *writer)
{
    return __atomic_load_n(&writer->names.header->log_end, __ATOMIC_SEQ_CST) & ~FAN_NAMES_LOG_ENDED;
}

uint64_t fan_names_log(const struct fan_names_writer *writer, const char **log)
{
    const struct fan_names_header *header = writer->names.header;
    *log = (const char *)header + FAN_NAMES_HEADER_BYTES + header->log_done;
    return log_end(writer) - header->log_done;
}

/* What is not followed yet moves to the beginning of the log, where that is free. Whoever dies in
 * the midst of it leaves a log that ends before `log_done`: it has moved, and may have grown. */
static void begin_anew(struct fan_names_header *header)
{
    char *log = (char *)header + FAN_NAMES_HEADER_BYTES;
    uint64_t done = header->log_done;
    uint64_t end = __atomic_load_n(&header->log_end, __ATOMIC_SEQ_CST);
    uint64_t left = end - done;
    if ((end & FAN_NAMES_LOG_ENDED) || left + FAN_NAMES_LOG_SPARE_BYTES > done)
        return;
    memcpy(log, log + done, left);
    if (__atomic_compare_exchange_n(&header->log_end, &end, left, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED))
        __atomic_store_n(&header->log_done, 0, __ATOMIC_SEQ_CST);
}

/* There is room for more changes, and for more names. */
static void tidy(struct fan_names_writer *writer)
{
    begin_anew(writer->names.header);
    fan_table_turn(&writer->names);
    fan_names_make_room(writer, 0, 0, SPARE_UNITS);
    fan_table_turn(&writer->names);
}

void fan_names_followed(struct fan_names_writer *writer, uint64_t bytes)
{
    writer->names.header->log_done += bytes;
    if (lock(writer)) {
        tidy(writer);
        unlock(writer);
    }
}

bool fan_names_sleep(struct fan_names_writer *writer)
{
    struct fan_names_header *header = writer->names.header;
    __atomic_store_n(&header->awake, 0, __ATOMIC_SEQ_CST);
    if (log_end(writer) == header->log_done)
        return true;
    __atomic_store_n(&header->awake, 1, __ATOMIC_SEQ_CST);
    return false;
}

void fan_names_take_draft(struct fan_names_writer *writer, uint64_t object)
{
    struct fan_names_draft *draft = &writer->names.header->drafts[object % FAN_NAMES_DRAFTS];
    if (draft->object != object || !lock(writer))
        return;
    if (draft->object == object)
        draft->object = 0;
    unlock(writer);
}

uint64_t fan_names_log_left(const void *base, uint64_t bytes, const char **log)
{
    const struct fan_names_header *header = base;
    if (bytes < FAN_NAMES_HEADER_BYTES + FAN_NAMES_LOG_BYTES || header->magic != FAN_NAMES_MAGIC)
        return 0;
    uint64_t end = header->log_end & ~FAN_NAMES_LOG_ENDED;
    uint64_t done = header->log_done <= end ? header->log_done : 0; /* see begin_anew */
    *log = (const char *)header + FAN_NAMES_HEADER_BYTES + done;
    return end <= FAN_NAMES_LOG_BYTES ? end - done : 0;
}
