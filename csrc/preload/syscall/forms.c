/*
 * Functions of libc that make another call (FAN_FORM and FAN_CHECKED of calls.def). Arguments come
 * in registers, whatever their types are, and an int result lies in the lower half of the answer.
 */
/* No inline functions in headers: before glibc 2.33, that of stat calls __xstat, which calls stat
 * here. */
#define __NO_INLINE__ 1
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "../real.h"
#include "../undeclared.h"

#define A a
#define B b
#define C c
#define D d
#define E e
#define F f
#define G g
#define P(argument) ((void *)(argument))

#define ARGUMENT __attribute__((unused)) unsigned long
#define ARGUMENTS ARGUMENT a, ARGUMENT b, ARGUMENT c, ARGUMENT d, ARGUMENT e, ARGUMENT f, ARGUMENT g

#define FAN_ANSWERED(name, answer, fails)                                                          \
    long fan_form_##name(ARGUMENTS) __asm__(#name);                                                \
    FAN_EXPORT long fan_form_##name(ARGUMENTS)                                                     \
    {                                                                                              \
        if (fails)                                                                                 \
            __chk_fail();                                                                          \
        return (long)(answer);                                                                     \
    }
#include "../calls.def"
