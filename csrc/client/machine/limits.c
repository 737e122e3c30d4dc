#include "limits.h"

#include <stddef.h>
#include <sys/resource.h>

#include "../../common/sys.h"

atomic_bool fan_restricted_flag;

bool fan_file_limit_allows(uint64_t bytes)
{
    struct rlimit limit;
    return FAN_SYS(prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) == 0 && limit.rlim_cur >= bytes;
}
