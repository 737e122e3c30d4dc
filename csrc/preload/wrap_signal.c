/* Signals: the program's handlers of SIGBUS and SIGSEGV live beside ours (client/fault.h). */
#include <signal.h>

#include "../client/fault.h"
#include "real.h"

FAN_EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (!fan_fault_is_ours(number))
        return REAL(sigaction)(number, action, old);
    return (int)fan_answer(fan_fault_sigaction(number, action, old));
}

FAN_EXPORT sighandler_t signal(int number, sighandler_t handler)
{
    if (!fan_fault_is_ours(number))
        return REAL(signal)(number, handler);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
    fan_fault_sigaction(number, &action, &old);
    return old.sa_handler;
}
