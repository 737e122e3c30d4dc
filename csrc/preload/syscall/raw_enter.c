#include "raw.h"

#include "../../client/machine/raw_sites.h"

#if FAN_RAW_CALLS
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "../../client/files/filetable.h"
#include "../../client/content/realcopy.h"
#include "../../common/sys.h"
#include "syscall.h"

/* Saves everything that the calling code may keep in vector registers and flags, and skips the 128
 * bytes below its stack pointer. 0xe6 selects the parts of XSAVE that C code may change (SSE, AVX,
 * AVX-512), at most 2,688 bytes. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl fan_raw_enter\n"
        ".hidden fan_raw_enter\n"
        ".type fan_raw_enter, @function\n"
        "fan_raw_enter:\n"
        "    leaq -128(%rsp), %rsp\n"
        "    pushfq\n"
        "    pushq %rcx\n"
        "    pushq %rbx\n"
        "    pushq %rbp\n"
        "    pushq %r9\n"
        "    pushq %r8\n"
        "    pushq %r10\n"
        "    pushq %rdx\n"
        "    pushq %rsi\n"
        "    pushq %rdi\n"
        "    movq %rsp, %rbx\n"
        "    movl %eax, %ebp\n"
        "    subq $2752, %rsp\n"
        "    andq $-64, %rsp\n"
        "    xorl %edx, %edx\n"
        "    movq %rdx, 512(%rsp)\n"
        "    movq %rdx, 520(%rsp)\n"
        "    movq %rdx, 528(%rsp)\n"
        "    movq %rdx, 536(%rsp)\n"
        "    movq %rdx, 544(%rsp)\n"
        "    movq %rdx, 552(%rsp)\n"
        "    movq %rdx, 560(%rsp)\n"
        "    movq %rdx, 568(%rsp)\n"
        "    movl $0xe6, %eax\n"
        "    xsave (%rsp)\n"
        "    cld\n"
        "    movl %ebp, %edi\n"
        "    movq %rbx, %rsi\n"
        "    call fan_raw_call\n"
        "    movq %rax, %rbp\n"
        "    movl $0xe6, %eax\n"
        "    xorl %edx, %edx\n"
        "    xrstor (%rsp)\n"
        "    movq %rbp, %rax\n"
        "    movq %rbx, %rsp\n"
        "    popq %rdi\n"
        "    popq %rsi\n"
        "    popq %rdx\n"
        "    popq %r10\n"
        "    popq %r8\n"
        "    popq %r9\n"
        "    popq %rbp\n"
        "    popq %rbx\n"
        "    popq %rcx\n"
        "    popfq\n"
        "    leaq 128(%rsp), %rsp\n"
        "    jmp *%rcx\n"
        ".size fan_raw_enter, . - fan_raw_enter\n");

/* Opens a real file instead of a file of ours that is opened for reading, because the code may read
 * it with instructions that are not redirected. (read(2) has the number 0, which code loads in
 * another way.) In a prefix that existed before, the kernel finds the original file. */
static long open_really(long number, const struct fan_arguments *x, int fd)
{
    struct fan_file *file = fan_file_get(fd);
    if (file == NULL || file->kind != FAN_FILE_REGULAR)
        return fd;
    int copy = file->view->prefix_made ? fan_real_copy(file) : -EXDEV;
    int flags = fcntl(fd, F_GETFD);
    if (copy >= 0) {
        fan_file_remove(fd);
        FAN_SYS(dup3, copy, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
        fan_sys_close(copy);
        return fd;
    }
    close(fd);
    return copy == -EXDEV ? fan_sys6(number, x->a, x->b, x->c, x->d, x->e, x->f) : copy;
}

static bool is_open(unsigned number)
{
    return number == SYS_open || number == SYS_openat || number == SYS_openat2;
}

long fan_raw_call(unsigned number, const struct fan_arguments *x)
    __attribute__((visibility("hidden")));

/* Makes a system call. Returns the kernel's answer, or -errno. The instruction is no cancellation
 * point. */
__attribute__((used)) long fan_raw_call(unsigned number, const struct fan_arguments *x)
{
    int saved = errno, cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    errno = 0;
    long answer = fan_syscall_answer((long)number, x);
    if (answer == -1 && errno != 0)
        answer = -errno;
    if (answer >= 0 && is_open(number))
        answer = open_really((long)number, x, (int)answer);
    pthread_setcancelstate(cancel, NULL);
    errno = saved;
    return answer;
}

bool fan_raw_can_enter(void)
{
    enum { OSXSAVE = 1 << 27, STATE_BYTES_MAX = 2752, PARTS = 0xe6 };
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE))
        return false;
    for (unsigned part = 2; part < 8; part++) {
        if ((PARTS & 1u << part) && __get_cpuid_count(0xd, part, &a, &b, &c, &d) &&
            b + a > STATE_BYTES_MAX)
            return false;
    }
    return true;
}
#endif
