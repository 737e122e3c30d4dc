/*
 * Threads that do one work together: most of them wait for a file server, which answers many calls
 * at once.
 */
#pragma once

#include <stdint.h>

enum { FAN_TOGETHER_MOST = 64 };

/* Calls work(argument) in `wanted` threads, at most FAN_TOGETHER_MOST, of which the caller's is
 * one; in fewer if no more can be created. Returns when all calls have. */
void fan_together(uint64_t wanted, void *(*work)(void *argument), void *argument);
