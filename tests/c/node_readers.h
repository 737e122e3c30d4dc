/* Threads of several clients that read all there is, and compare it. */
#pragma once

#include "node_world.h"

/* On each rank in `ranks` (a bit each) two clients, of two threads and of one, which read every
 * file whose pack the rank has not, each in another order, `rounds` times. */
void read_on(struct world *world, unsigned ranks, unsigned rounds);
