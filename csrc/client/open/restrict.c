#include "open.h"

#include "../content/session.h"
#include "../files/filetable.h"
#include "../job/lane.h"
#include "../job/packs.h"
#include "../machine/limits.h"
#include "../machine/vfork.h"

/* Opens the files from which a pack is read. Returns whether the node daemon is asked for files of
 * the pack. */
static bool prepare_pack(struct fan_view *view, struct fan_dataset *dataset, uint32_t pack)
{
    switch (fan_view_place(view, pack)) {
    case FAN_PLACE_STAGED:
        fan_pack_map(view, dataset, pack);
        return (__atomic_load_n(&view->places[pack].flags, __ATOMIC_ACQUIRE) &
                FAN_PLACE_HAS_UNCHECKED) != 0;
    case FAN_PLACE_IN_PLACE:
        fan_pack_fd(view, dataset, pack, FAN_PACK_SHARED);
        return false;
    case FAN_PLACE_PARTIAL:
        fan_pack_map_partial(view, dataset, pack, 0);
        return true;
    default:
        return true;
    }
}

void fan_restrict(void)
{
    bool asks = false;
    if (fan_job.view_count == 0 || fan_in_vfork_child())
        return;
    fan_lane_is_own(); /* claims a lane */
    fan_file_make_ready();
    for (unsigned i = 0; i < fan_job.view_count; i++) {
        struct fan_dataset *dataset = fan_view_dataset(&fan_job.views[i]);
        for (uint32_t pack = 0; dataset != NULL && pack < fan_job.views[i].pack_count; pack++)
            asks |= prepare_pack(&fan_job.views[i], dataset, pack);
    }
    if (asks)
        fan_session();
    atomic_store(&fan_restricted_flag, true);
}
