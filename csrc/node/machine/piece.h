/* A part of a block of a file. */
#pragma once

#include <stdint.h>

/* Granules of a block: `count` from number `from` on; 0: the whole block. */
struct fan_piece {
    uint32_t from;
    uint32_t count;
};

static const struct fan_piece FAN_WHOLE_BLOCK = {0, 0};
