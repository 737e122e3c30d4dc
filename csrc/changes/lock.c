#include "lock.h"

#include <string.h>
#include <time.h>

#include "../common/sys.h"
#include "table.h"

enum { WAITS = 40, LOG_WAITS = 20000, WAIT_NS = 50000, SPINS = 200 };

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

bool fan_change_enter_log(const struct fan_changer *changer)
{
    for (unsigned i = 0; i < LOG_WAITS && !has_ended(changer); i++) {
        if (lock(changer))
            return true;
        wait_a_moment();
    }
    return false;
}

bool fan_change_commit(const struct fan_changer *changer, struct fan_change *change,
                       const char *path, const char *other, uint64_t spare_bytes)
{
    struct fan_names_header *header = changer->names.header;
    uint64_t end = __atomic_load_n(&header->log_end, __ATOMIC_ACQUIRE);
    size_t path_room = fan_table_padded(change->path_bytes);
    change->bytes = (uint32_t)(sizeof(*change) + path_room + fan_table_padded(change->other_bytes));
    if ((end & FAN_NAMES_LOG_ENDED) || change->bytes + spare_bytes > FAN_NAMES_LOG_BYTES - end)
        return false;
    char *at = (char *)header + FAN_NAMES_HEADER_BYTES + end;
    memcpy(at, change, sizeof(*change));
    memcpy(at + sizeof(*change), path, change->path_bytes);
    memcpy(at + sizeof(*change) + path_room, other, change->other_bytes);
    fan_table_turn(&changer->names);
    if (__atomic_compare_exchange_n(&header->log_end, &end, end + change->bytes, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        return true;
    fan_table_turn(&changer->names);
    return false;
}

void fan_change_settle(struct fan_changer *changer)
{
    fan_table_turn(&changer->names);
    changer->wake = __atomic_exchange_n(&changer->names.header->awake, 1, __ATOMIC_SEQ_CST) == 0;
}
