/*
 * Finds out whether a Python interpreter will use its debug allocators. The interpreter allocates
 * an audit hook that was added before its start without them and frees it with them (seen in
 * CPython 3.11 to 3.14), which ends the process.
 */
#pragma once

#include <stdbool.h>

/* argv: the interpreter's arguments. Returns whether they (-X dev) or the environment
 * (PYTHONDEVMODE, PYTHONMALLOC) ask for debug allocators. */
bool fan_python_debugs(char *const argv[]);
