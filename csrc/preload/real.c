#include "real.h"

#include <dlfcn.h>

_Atomic(void *) fan_real_calls[FAN_REAL_COUNT];

static const char *const names[FAN_REAL_COUNT] = {
#define FAN_INTERCEPT(name, ...) [FAN_REAL_##name] = #name,
#include "intercepts.def"
#undef FAN_INTERCEPT
};

void *fan_real_find(enum fan_real_index index)
{
    int saved = errno;
    void *call = dlsym(RTLD_NEXT, names[index]);
    atomic_store_explicit(&fan_real_calls[index], call, memory_order_relaxed);
    errno = saved;
    return call;
}
