#include "real.h"

#include <dlfcn.h>
#include <stdint.h>

_Atomic(void *) fan_real_calls[FAN_REAL_COUNT];

/* All names in one object: a table of pointers would be relocated at the start of every program. */
static const struct names {
#define FAN_INTERCEPT(name, ...) char name##_[sizeof(#name)];
#include "intercepts.def"
#undef FAN_INTERCEPT
} names = {
#define FAN_INTERCEPT(name, ...) #name,
#include "intercepts.def"
#undef FAN_INTERCEPT
};

static const uint16_t offsets[FAN_REAL_COUNT] = {
#define FAN_INTERCEPT(name, ...) [FAN_REAL_##name] = offsetof(struct names, name##_),
#include "intercepts.def"
#undef FAN_INTERCEPT
};

void *fan_real_find(enum fan_real_index index)
{
    int saved = errno;
    void *call = dlsym(RTLD_NEXT, (const char *)&names + offsets[index]);
    atomic_store_explicit(&fan_real_calls[index], call, memory_order_relaxed);
    errno = saved;
    return call;
}
