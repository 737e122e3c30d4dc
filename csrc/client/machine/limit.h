/* RLIMIT_FSIZE, which is the program's and holds for what the library writes, too. */
#ifndef FAN_CLIENT_LIMIT_H
#define FAN_CLIENT_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* Whether RLIMIT_FSIZE lets a file grow so far; growing it beyond would raise SIGXFSZ. */
bool fan_file_limit_allows(uint64_t bytes);

#endif
