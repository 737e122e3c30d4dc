/*
 * Looks at names of outputs that another rank keeps, by way of the node daemon's core: one round
 * trip to that rank, without its daemon's Python or this node's.
 */
#ifndef FAN_CLIENT_FAR_H
#define FAN_CLIENT_FAR_H

#include "../../common/names.h"

/* As fan_names_look, of rank `home`; FAN_NAMES_ASK for a link, too, and where no answer comes soon.
 */
int fan_far_look(uint32_t home, const struct fan_names_path *path, bool follow,
                 struct fan_output_attr *attr);

#endif
