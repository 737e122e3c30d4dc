/* Finds the library that contains an address. */
#include <dlfcn.h>
#include <limits.h>

#include "../../client/code/code.h"
#include "../real.h"

/* Replaces the path of a library by the one that the program knows. */
static __attribute__((noinline)) void show(Dl_info *info)
{
    char shown[PATH_MAX];
    const char *kept = NULL;
    if (fan_code_shown(info->dli_fname, shown, sizeof(shown)) >= 0)
        kept = fan_code_keep(shown);
    if (kept != NULL)
        info->dli_fname = kept;
}

static int shown(int found, Dl_info *info)
{
    const char *rest;
    if (found != 0 && fan_job.view_count > 0 && info->dli_fname != NULL &&
        fan_code_match(info->dli_fname, &rest) != NULL)
        show(info);
    return found;
}

FAN_EXPORT int dladdr(const void *address, Dl_info *info)
{
    return shown(REAL(dladdr)(address, info), info);
}

FAN_EXPORT int dladdr1(const void *address, Dl_info *info, void **extra, int flags)
{
    return shown(REAL(dladdr1)(address, info, extra, flags), info);
}
