#include "copy.h"

#include "fault.h"

#if defined(__x86_64__)

/*
 * rdi to, rsi from, rdx bytes. A leaf that keeps nothing on the stack, so that fault.c can leave it
 * at fan_copy_faulted from any instruction, with the error in eax.
 *
 * `rep movsb` is the fastest for a destination on a cache line, and falls to a tenth for one a few
 * bytes past a page boundary, as large Python bytes objects are: those, and small copies, take a
 * loop of unaligned loads and aligned stores.
 */
__asm__(".text\n"
        ".p2align 6\n"
        ".globl fan_copy\n"
        ".hidden fan_copy\n"
        ".type fan_copy, @function\n"
        "fan_copy:\n"
        ".globl fan_copy_begin\n"
        ".hidden fan_copy_begin\n"
        "fan_copy_begin:\n"
        "    cmp $16, %rdx\n"
        "    jb 4f\n"
        "    cmp $2048, %rdx\n"
        "    jb 6f\n"
        "    test $63, %dil\n"
        "    jz 4f\n"
        "6:  movdqu (%rsi), %xmm0\n"
        "    movdqu -16(%rsi,%rdx), %xmm5\n"
        "    lea -16(%rdi,%rdx), %r8\n" /* where the last 16 bytes go */
        "    movdqu %xmm0, (%rdi)\n"
        "    mov %rdi, %rcx\n"
        "    neg %rcx\n"
        "    and $15, %rcx\n" /* bytes up to an aligned destination */
        "    add %rcx, %rdi\n"
        "    add %rcx, %rsi\n"
        "    sub %rcx, %rdx\n"
        "    sub $64, %rdx\n"
        "    jb 2f\n"
        ".p2align 5\n"
        "1:  movdqu (%rsi), %xmm1\n"
        "    movdqu 16(%rsi), %xmm2\n"
        "    movdqu 32(%rsi), %xmm3\n"
        "    movdqu 48(%rsi), %xmm4\n"
        "    movdqa %xmm1, (%rdi)\n"
        "    movdqa %xmm2, 16(%rdi)\n"
        "    movdqa %xmm3, 32(%rdi)\n"
        "    movdqa %xmm4, 48(%rdi)\n"
        "    add $64, %rsi\n"
        "    add $64, %rdi\n"
        "    sub $64, %rdx\n"
        "    jae 1b\n"
        "2:  add $64, %rdx\n"
        "3:  sub $16, %rdx\n"
        "    jb 5f\n"
        "    movdqu (%rsi), %xmm1\n"
        "    movdqa %xmm1, (%rdi)\n"
        "    add $16, %rsi\n"
        "    add $16, %rdi\n"
        "    jmp 3b\n"
        "5:  movdqu %xmm5, (%r8)\n"
        "    xor %eax, %eax\n"
        "    ret\n"
        "4:  mov %rdx, %rcx\n"
        "    rep movsb\n"
        "    xor %eax, %eax\n"
        "    ret\n"
        ".globl fan_copy_end\n"
        ".hidden fan_copy_end\n"
        "fan_copy_end:\n"
        ".globl fan_copy_faulted\n"
        ".hidden fan_copy_faulted\n"
        "fan_copy_faulted:\n"
        "    ret\n"
        ".size fan_copy, . - fan_copy\n");

#else

#include <setjmp.h>
#include <string.h>

int fan_copy(void *to, const void *from, size_t bytes)
{
    sigjmp_buf landing;
    int error = sigsetjmp(landing, 0);
    if (error == 0) {
        fan_fault_landing = &landing;
        memcpy(to, from, bytes);
    }
    fan_fault_landing = NULL;
    return -error;
}

#endif
