#include "family.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "../../common/sys.h"
#include "../handlers.h"

/* Defined as in newer headers. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#    define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#if defined(__x86_64__)
#    define OWN_ARCH AUDIT_ARCH_X86_64
#else
#    define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

enum { FILTER_MAX = 160, FOREIGN_NUMBERS = 0x40000000 };

static struct sock_filter program[FILTER_MAX];
static unsigned length;

static void add(struct sock_filter instruction)
{
    program[length++] = instruction;
}

#define STATEMENT(code, k) ((struct sock_filter)BPF_STMT(code, k))
#define JUMP(code, k, yes, no) ((struct sock_filter)BPF_JUMP(code, k, yes, no))
#define DATA(field) ((unsigned)offsetof(struct seccomp_data, field))

static void load(unsigned offset)
{
    add(STATEMENT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void answer(unsigned what)
{
    add(STATEMENT(BPF_RET | BPF_K, what));
}

/* Writes the filter. Calls of another architecture pass. io_uring opens files that no filter sees,
 * so the kernel reports it as missing, and programs use other calls. The library's own calls carry
 * its mark (common/sys.h). */
static void write_program(void)
{
    unsigned caught[FILTER_MAX], count = 0;
    load(DATA(arch));
    add(JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0));
    answer(SECCOMP_RET_ALLOW);
    load(DATA(nr));
    add(JUMP(BPF_JMP | BPF_JGE | BPF_K, FOREIGN_NUMBERS, 0, 1));
    answer(SECCOMP_RET_ALLOW);
    add(JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1));
    answer(SECCOMP_RET_ERRNO | ENOSYS);
    for (unsigned number = 0; number < FAN_CALL_NUMBERS; number++) {
        if (!fan_is_caught(number))
            continue;
        caught[count++] = length;
        add(JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 0));
    }
    answer(SECCOMP_RET_ALLOW);
    for (unsigned i = 0; i < count; i++)
        program[caught[i]].jt = (unsigned char)(length - caught[i] - 1);
    load(DATA(args[5]));
    add(JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)FAN_SYS_MARK, 0, 3));
    load(DATA(args[5]) + 4);
    add(JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(FAN_SYS_MARK >> 32), 0, 1));
    answer(SECCOMP_RET_ALLOW);
    answer(SECCOMP_RET_USER_NOTIF);
}

int fan_filter_install(void)
{
    length = 0;
    write_program();
    struct sock_fprog given = {.len = (unsigned short)length, .filter = program};
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    long fd = FAN_SYS(seccomp, SECCOMP_SET_MODE_FILTER,
                      flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &given);
    if (fd == -EINVAL) /* before Linux 5.19: signals interrupt caught calls */
        fd = FAN_SYS(seccomp, SECCOMP_SET_MODE_FILTER, flags, &given);
    return (int)fd;
}
