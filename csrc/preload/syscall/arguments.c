#include "syscall.h"

#include <string.h>

#include "../../common/syscall_numbers.h"

enum { ARGUMENTS_MAX = 6 };

static const char arguments_of[][ARGUMENTS_MAX + 1] = {
#define FAN_NUMBER(name, arguments, ...) [SYS_##name] = arguments,
#include "../calls.def"
};

const char *fan_call_arguments(long number)
{
    unsigned long at = (unsigned long)number;
    return at < sizeof(arguments_of) / sizeof(arguments_of[0]) ? arguments_of[at] : "";
}

static bool has_any(long number, const char *letters)
{
    return strpbrk(fan_call_arguments(number), letters) != NULL;
}

bool fan_call_has_path(long number)
{
    return has_any(number, "pln");
}

bool fan_call_is_redirected(long number)
{
    return has_any(number, "fdkplng!");
}
