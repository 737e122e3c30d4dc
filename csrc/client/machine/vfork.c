#include "vfork.h"

#include "../../common/sys.h"

__thread bool fan_vfork_thread __attribute__((tls_model("initial-exec")));
static int owner_pid;

bool fan_is_vfork_child(void)
{
    return (int)FAN_SYS(getpid) != owner_pid;
}

void fan_vfork_expect(void)
{
    if (!fan_vfork_thread) /* a child made without fork's wrappers owns its memory, too */
        owner_pid = (int)FAN_SYS(getpid);
    fan_vfork_thread = true;
}

void fan_vfork_over(void)
{
    fan_vfork_thread = false;
}
