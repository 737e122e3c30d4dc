#include "lock.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "../common/sys.h"
#include "table.h"

enum {
    WAITS = 40,
    LOG_WAITS = 20000,
    LOG_WAITS_LIVING = 20, /* before it is asked whether who is waited for lives */
    WAIT_NS = 50000,
    SPINS = 200
};

static bool lock(const struct fan_changer *changer)
{
    uint32_t *owner = &changer->names.header->changer;
    for (unsigned i = 0; i < SPINS; i++) {
        uint32_t nobody = 0;
        if (__atomic_compare_exchange_n(owner, &nobody, changer->thread, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return true;
    }
    return false;
}

void fan_change_leave(const struct fan_changer *changer)
{
    __atomic_store_n(&changer->names.header->changer, 0, __ATOMIC_RELEASE);
}

static enum fan_names_closed closed(const struct fan_changer *changer)
{
    return __atomic_load_n(&changer->names.header->closed, __ATOMIC_ACQUIRE);
}

static bool may_change(const struct fan_changer *changer)
{
    return closed(changer) == FAN_NAMES_LET && fan_names_settled(&changer->names);
}

static void wait_a_moment(void)
{
    struct timespec pause = {0, WAIT_NS};
    FAN_SYS(nanosleep, &pause, NULL);
}

static bool enter_at_once(const struct fan_changer *changer)
{
    if (!may_change(changer) || !lock(changer))
        return false;
    if (may_change(changer))
        return true;
    fan_change_leave(changer);
    return false;
}

static bool has_ended(const struct fan_changer *changer)
{
    return !fan_names_kept(&changer->names) || closed(changer) == FAN_NAMES_NEVER;
}

bool fan_change_enter(const struct fan_changer *changer)
{
    static bool in_vain;
    if (changer->hurried)
        return !has_ended(changer) && enter_at_once(changer);
    unsigned waits = __atomic_load_n(&in_vain, __ATOMIC_RELAXED) ? 1 : WAITS;
    for (unsigned i = 0; i < waits; i++) {
        if (has_ended(changer))
            return false;
        if (enter_at_once(changer)) {
            __atomic_store_n(&in_vain, false, __ATOMIC_RELAXED);
            return true;
        }
        wait_a_moment();
    }
    __atomic_store_n(&in_vain, true, __ATOMIC_RELAXED);
    return false;
}

/* Whether whoever has the segment in its hands has been killed: one that ended in order had let it
 * go before. */
static bool is_dead(const struct fan_changer *changer)
{
    uint32_t *changing = &changer->names.header->changer;
    uint32_t owner = __atomic_load_n(changing, __ATOMIC_ACQUIRE);
    return owner != 0 && FAN_SYS(tkill, owner, 0) == -ESRCH &&
           __atomic_load_n(changing, __ATOMIC_ACQUIRE) == owner;
}

bool fan_change_enter_log(const struct fan_changer *changer)
{
    for (unsigned i = 0; i < LOG_WAITS && !has_ended(changer); i++) {
        if (lock(changer))
            return true;
        if (i > LOG_WAITS_LIVING && is_dead(changer))
            break;
        wait_a_moment();
    }
    return false;
}

/* Puts a change behind the end of the log, which is still to be moved. false: it has no room. */
static bool put(const struct fan_changer *changer, struct fan_change *change, const char *path,
                const char *other, uint64_t end, uint64_t spare_bytes)
{
    size_t path_room = fan_table_padded(change->path_bytes);
    change->bytes = (uint32_t)(sizeof(*change) + path_room + fan_table_padded(change->other_bytes));
    if (change->bytes + spare_bytes > FAN_NAMES_LOG_BYTES - end)
        return false;
    char *at = (char *)changer->names.header + FAN_NAMES_HEADER_BYTES + end;
    memcpy(at, change, sizeof(*change));
    memcpy(at + sizeof(*change), path, change->path_bytes);
    memcpy(at + sizeof(*change) + path_room, other, change->other_bytes);
    return true;
}

bool fan_change_commit(const struct fan_changer *changer, struct fan_change *change,
                       const char *path, const char *other, uint64_t spare_bytes)
{
    struct fan_names_header *header = changer->names.header;
    uint64_t end = __atomic_load_n(&header->log_end, __ATOMIC_ACQUIRE);
    if ((end & FAN_NAMES_LOG_ENDED) || !put(changer, change, path, other, end, spare_bytes))
        return false;
    fan_table_turn(&changer->names);
    if (__atomic_compare_exchange_n(&header->log_end, &end, end + change->bytes, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        return true;
    fan_table_turn(&changer->names);
    return false;
}

bool fan_change_note(struct fan_changer *changer, struct fan_change *change, const char *path,
                     const char *other)
{
    struct fan_names_header *header = changer->names.header;
    uint64_t end = __atomic_load_n(&header->log_end, __ATOMIC_ACQUIRE);
    do { /* again where the daemon has set the bit that ends the log for clients */
        if (!put(changer, change, path, other, end & ~FAN_NAMES_LOG_ENDED, 0))
            return false;
    } while (!__atomic_compare_exchange_n(&header->log_end, &end, end + change->bytes, false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE));
    changer->wake = __atomic_exchange_n(&header->awake, 1, __ATOMIC_SEQ_CST) == 0;
    return true;
}

void fan_change_settle(struct fan_changer *changer)
{
    fan_table_turn(&changer->names);
    changer->wake = __atomic_exchange_n(&changer->names.header->awake, 1, __ATOMIC_SEQ_CST) == 0;
}
