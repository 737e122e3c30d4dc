/* Signals: keeps the program's handlers of SIGBUS and SIGSEGV beside those of this library
 * (client/machine/fault.h). */
#include <signal.h>

#include "../../client/machine/fault.h"
#include "../real.h"
#include "../undeclared.h"

int __sigaction(int number, const struct sigaction *action, struct sigaction *old);

FAN_EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (!fan_fault_is_ours(number))
        return REAL(sigaction)(number, action, old);
    return (int)fan_answer(fan_fault_sigaction(number, action, old));
}

static sighandler_t set_handler(int number, sighandler_t handler, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;
    fan_fault_sigaction(number, &action, &old);
    return old.sa_handler;
}

FAN_EXPORT sighandler_t signal(int number, sighandler_t handler)
{
    if (!fan_fault_is_ours(number))
        return REAL(signal)(number, handler);
    return set_handler(number, handler, SA_RESTART);
}

FAN_EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler)
{
    if (!fan_fault_is_ours(number))
        return REAL(__sysv_signal)(number, handler);
    return set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER));
}
