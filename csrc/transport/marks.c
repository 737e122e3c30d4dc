#include "marks.h"

#include <string.h>

enum { STEP_BYTES = 4096 };

void fan_marks_put(uint64_t mark, void *to, uint32_t bytes)
{
    char *base = to;
    for (uint32_t at = 0; at + sizeof(mark) <= bytes; at += STEP_BYTES)
        memcpy(base + at, &mark, sizeof(mark));
    memcpy(base + bytes - sizeof(mark), &mark, sizeof(mark));
}

bool fan_marks_left(uint64_t mark, const void *from, uint32_t bytes)
{
    const char *base = from;
    bool found = memcmp(base + bytes - sizeof(mark), &mark, sizeof(mark)) == 0;
    for (uint32_t at = 0; !found && at + sizeof(mark) <= bytes; at += STEP_BYTES)
        found = memcmp(base + at, &mark, sizeof(mark)) == 0;
    return found;
}
