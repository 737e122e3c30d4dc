#include "real.h"

#include <dlfcn.h>
#include <stdint.h>

_Atomic(void *) fan_real_calls[FAN_REAL_COUNT];

/* All names are in one object: a table of pointers would have to be relocated at the start of every
 * program. */
static const struct names {
#define FAN_NAME(name) char name##_[sizeof(#name)];
#include "calls.def"
} names = {
#define FAN_NAME(name) #name,
#include "calls.def"
};

static const uint16_t offsets[FAN_REAL_COUNT] = {
#define FAN_NAME(name) [FAN_REAL_##name] = offsetof(struct names, name##_),
#include "calls.def"
};

void *fan_real_find(enum fan_real_index index)
{
    int saved = errno;
    void *call = dlsym(RTLD_NEXT, (const char *)&names + offsets[index]);
    atomic_store_explicit(&fan_real_calls[index], call, memory_order_relaxed);
    errno = saved;
    return call;
}
