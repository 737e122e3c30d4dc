/* What the writer's files share. */
#ifndef FAN_NAMES_OWN_H
#define FAN_NAMES_OWN_H

#include "../changes/table.h"
#include "writer.h"

/* broken: a client ended with the segment in its hands; nobody looks at it any more. stuck: how
 * many changes elsewhere were last waited for in vain. */
struct fan_names_writer {
    struct fan_names names;
    int fd;
    bool broken;
    uint64_t stuck;
};

/* Takes room, where there is any, for one more name, and for so many more units. */
void fan_names_make_room(struct fan_names_writer *writer, uint32_t path_bytes,
                         uint32_t target_bytes, uint64_t spare);

#endif
