#include "hint_line.h"

bool fan_hints_enter(struct fan_hints *hints, const struct fan_hinted *hinted)
{
    if (hints->count == FAN_HINTS || hinted->block >= hinted->end)
        return false;
    hints->line[(hints->first + hints->count++) % FAN_HINTS] = *hinted;
    return true;
}

bool fan_hints_have(const struct fan_hints *hints, uint64_t file, uint64_t block)
{
    for (uint32_t i = 0; i < hints->count; i++) {
        const struct fan_hinted *hinted = &hints->line[(hints->first + i) % FAN_HINTS];
        if (hinted->file == file && hinted->block <= block && block < hinted->end)
            return true;
    }
    return false;
}
