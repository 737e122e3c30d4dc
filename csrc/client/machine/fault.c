#include "fault.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "../../common/sys.h"
#include "vfork.h"

extern const char fan_copy_begin[], fan_copy_end[], fan_copy_faulted[];

static bool is_copy(uintptr_t at)
{
    return at >= (uintptr_t)fan_copy_begin && at < (uintptr_t)fan_copy_end;
}

/* If the faulting instruction is one of the copy's (copy.h), makes the copy return -error. */
static bool leave_copy(void *context, int error)
{
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
    if (!is_copy((uintptr_t)machine->gregs[REG_RIP]))
        return false;
    machine->gregs[REG_RIP] = (greg_t)(uintptr_t)fan_copy_faulted;
    machine->gregs[REG_RAX] = (greg_t)-error;
#else
    if (!is_copy((uintptr_t)machine->pc))
        return false;
    machine->pc = (uintptr_t)fan_copy_faulted;
    machine->regs[0] = (uint64_t)-error;
#endif
    return true;
}

/* The kernel's own struct, which differs from libc's in the order of its fields. */
struct kernel_sigaction {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

enum { SA_RESTORER_FLAG = 0x04000000 };

static struct sigaction program_action[2]; /* for SIGBUS, SIGSEGV */
static atomic_int installed;

static struct sigaction *kept(int signal)
{
    return &program_action[signal == SIGSEGV];
}

#if defined(__x86_64__)
__asm__(".text\n.type fan_restore, @function\n.hidden fan_restore\n.globl fan_restore\n"
        "fan_restore:\n    mov $15, %eax\n    syscall\n");
extern void fan_restore(void);
#endif

int fan_kernel_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
    struct kernel_sigaction now = {0}, before;
    if (action != NULL) {
        now.handler = action->sa_handler;
        now.flags = (unsigned long)(unsigned)action->sa_flags;
        memcpy(&now.mask, &action->sa_mask, sizeof(now.mask));
#if defined(__x86_64__)
        now.flags |= SA_RESTORER_FLAG;
        now.restorer = fan_restore;
#endif
    }
    long rc =
        FAN_SYS(rt_sigaction, signal, action != NULL ? &now : NULL, &before, sizeof(before.mask));
    if (rc == 0 && old != NULL) {
        memset(old, 0, sizeof(*old));
        old->sa_handler = before.handler;
        old->sa_flags = (int)(before.flags & ~(unsigned long)SA_RESTORER_FLAG);
        memcpy(&old->sa_mask, &before.mask, sizeof(before.mask));
    }
    return (int)rc;
}

static void set_kernel_action(int signal, void *handler, int flags)
{
    const struct sigaction action = {.sa_handler = (void (*)(int))handler, .sa_flags = flags};
    fan_kernel_sigaction(signal, &action, NULL);
}

/* Passes a signal that is not the library's to the program, as the kernel would. */
static void pass_on(int signal, siginfo_t *info, void *context)
{
    struct sigaction action = *kept(signal);
    bool from_outside = info->si_code <= 0;
    if (action.sa_handler == SIG_IGN && from_outside)
        return;
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
        set_kernel_action(signal, (void *)SIG_DFL, 0);
        long process = FAN_SYS(getpid), thread = FAN_SYS(gettid);
        if (from_outside)
            FAN_SYS(tgkill, process, thread, signal);
        return; /* the fault happens again, now with the default action */
    }
    if (action.sa_flags & (int)SA_RESETHAND)
        kept(signal)->sa_handler = SIG_DFL;
    sigset_t blocked = action.sa_mask, before;
    if (!(action.sa_flags & SA_NODEFER))
        sigaddset(&blocked, signal);
    FAN_SYS(rt_sigprocmask, SIG_BLOCK, &blocked, &before, sizeof(uint64_t));
    if (action.sa_flags & SA_SIGINFO)
        action.sa_sigaction(signal, info, context);
    else
        action.sa_handler(signal);
    FAN_SYS(rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(uint64_t));
}

/* The shared memory that may be lost. */
static struct {
    char *first;
    size_t bytes;
} losable;

void fan_fault_may_lose(void *memory, size_t bytes)
{
    enum { PAGE = 4096 };
    losable.first = memory;
    losable.bytes = (uintptr_t)memory % PAGE == 0 ? bytes : 0;
}

/* If `address` lies in memory that may be lost, replaces that memory by private memory. Returns
 * whether it did. */
static bool replace_lost(const void *address)
{
    if ((uintptr_t)address - (uintptr_t)losable.first >= losable.bytes)
        return false;
    return !fan_sys_failed(fan_sys_mmap(losable.first, losable.bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    if (leave_copy(context, signal == SIGBUS ? EIO : EFAULT) ||
        (signal == SIGBUS && info->si_code > 0 && replace_lost(info->si_addr)))
        return;
    int saved = errno;
    pass_on(signal, info, context);
    errno = saved;
}

static void adopt(int signal)
{
    fan_kernel_sigaction(signal, NULL, kept(signal));
    set_kernel_action(signal, (void *)on_fault, SA_SIGINFO | SA_NODEFER | SA_ONSTACK);
}

void fan_fault_init(void)
{
    if (atomic_load_explicit(&installed, memory_order_acquire) ||
        atomic_exchange(&installed, 1) != 0)
        return;
    adopt(SIGBUS);
    adopt(SIGSEGV);
}

int fan_fault_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
    if (fan_in_vfork_child()) /* a vfork child has its parent's memory, but its own signals */
        return fan_kernel_sigaction(signal, action, old);
    fan_fault_init();
    struct sigaction before = *kept(signal);
    if (action != NULL) {
        *kept(signal) = *action;
        /* The library's handler may have been removed to let a default action happen. */
        set_kernel_action(signal, (void *)on_fault,
                          SA_SIGINFO | SA_NODEFER | SA_ONSTACK | (action->sa_flags & SA_RESTART));
    }
    if (old != NULL)
        *old = before;
    return 0;
}
