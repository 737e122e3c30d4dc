/*
 * Somebody who is shown stored bytes where they lie, so that nobody has to copy them first.
 */
#ifndef FAN_CLIENT_LOOK_H
#define FAN_CLIENT_LOOK_H

#include <stdint.h>

#include "../machine/copy.h"

/* `at` is called with the bytes. It may be called again, with a sound copy, when it turns out that
 * the first ones could change while it looked: the last call counts. */
struct fan_look {
    void (*at)(void *context, const char *stored);
    void *context;
};

/* Shows mapped memory; `bytes` > 0. What it cannot give is found here, and not by the looker: a
 * library's decoder cannot bear a fault. As fan_copy. */
static inline int fan_look_at(const struct fan_look *look, const char *stored, uint64_t bytes)
{
    int rc = fan_touch(stored, bytes);
    if (rc == 0)
        look->at(look->context, stored);
    return rc;
}

#endif
