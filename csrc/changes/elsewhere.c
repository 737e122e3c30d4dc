#include "elsewhere.h"

#include "draft.h"
#include "lock.h"

uint64_t fan_elsewhere_under_way(const struct fan_names *names)
{
    const struct fan_names_header *header = names->header;
    uint64_t done = __atomic_load_n(&header->elsewhere_done, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&header->elsewhere_begun, __ATOMIC_ACQUIRE) - done;
}

/* Fills in what only this rank knows. */
static bool prepare(const struct fan_changer *changer, struct fan_change *change, uint32_t *home)
{
    const struct fan_names_draft *draft = fan_draft_at(&changer->names, change->object);
    if (change->kind == FAN_CHANGE_CREATED || change->kind == FAN_CHANGE_MADE)
        change->object = fan_draft_new_object(&changer->names);
    if (change->kind != FAN_CHANGE_PUBLISHED)
        return true;
    *home = (uint32_t)draft->unit;
    return fan_draft_is_elsewhere(&changer->names, change->object) &&
           draft->writer == fan_draft_writer(changer);
}

/* Whether all that may be under way finds room in the log to be noted, whenever it ends. */
static bool has_room(const struct fan_names_header *header)
{
    uint64_t end = __atomic_load_n(&header->log_end, __ATOMIC_ACQUIRE) & ~FAN_NAMES_LOG_ENDED;
    return end + FAN_NAMES_LOG_SPARE_BYTES <= FAN_NAMES_LOG_BYTES;
}

bool fan_elsewhere_begin(struct fan_changer *changer, struct fan_change *change, uint32_t *home)
{
    struct fan_names_header *header = changer->names.header;
    if (!fan_change_enter(changer))
        return false;
    if (fan_elsewhere_under_way(&changer->names) < FAN_NAMES_ELSEWHERE_MAX && has_room(header) &&
        prepare(changer, change, home)) {
        __atomic_fetch_add(&header->elsewhere_begun, 1, __ATOMIC_SEQ_CST);
        return true;
    }
    fan_change_leave(changer);
    return false;
}

void fan_elsewhere_begun(struct fan_changer *changer)
{
    fan_change_leave(changer);
}

/* The daemon takes over what finds no place. */
static void note_draft(const struct fan_changer *changer, const struct fan_change *change,
                       uint32_t home)
{
    struct fan_names_draft *draft = fan_draft_at(&changer->names, change->object);
    if (change->kind == FAN_CHANGE_CREATED && draft->object == 0)
        *draft = (struct fan_names_draft){change->object, FAN_NAMES_DRAFT_ELSEWHERE | home,
                                          fan_draft_writer(changer)};
    else if (change->kind == FAN_CHANGE_PUBLISHED && draft->object == change->object)
        draft->object = 0;
}

bool fan_elsewhere_note(struct fan_changer *changer, struct fan_change *change, const char *path,
                        const char *other, uint32_t home)
{
    struct fan_change noted = *change;
    noted.kind |= FAN_CHANGE_ELSEWHERE;
    bool alone = fan_change_enter_log(changer);
    if (!alone) /* whoever has the segment in its hands adds nothing more where this one goes */
        __atomic_fetch_or(&changer->names.header->log_end, FAN_NAMES_LOG_ENDED, __ATOMIC_SEQ_CST);
    bool is = fan_change_note(changer, &noted, path, other);
    if (alone && is)
        note_draft(changer, change, home);
    if (alone)
        fan_change_leave(changer);
    return is;
}

void fan_elsewhere_end(const struct fan_names *names)
{
    __atomic_fetch_add(&names->header->elsewhere_done, 1, __ATOMIC_SEQ_CST);
}
