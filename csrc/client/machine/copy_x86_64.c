/* Implements copy.h with instructions of x86_64. */
#include "copy.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdbool.h>

/* Whether the code below may use AVX2. The tests switch it off. */
extern bool fan_copy_has_avx2 __attribute__((visibility("hidden")));
bool fan_copy_has_avx2;

/* Sets fan_copy_has_avx2. The compiler's own test asks the processor for far more, and under a
 * hypervisor each question takes microseconds. */
__attribute__((constructor)) static void look_at_processor(void)
{
    unsigned eax, ebx, ecx, edx, kept;
    const unsigned avx = bit_OSXSAVE | bit_AVX, wide = 6; /* the registers of SSE and AVX */
    __cpuid(1, eax, ebx, ecx, edx);
    if ((ecx & avx) != avx)
        return;
    __asm__("xgetbv" : "=a"(kept), "=d"(edx) : "c"(0));
    if ((kept & wide) != wide)
        return;
    __cpuid_count(7, 0, eax, ebx, ecx, edx);
    fan_copy_has_avx2 = (ebx & bit_AVX2) != 0;
}

/* Copies 128 bytes to a destination that is aligned to 32 bytes. */
#    define MOVE_128                                                                               \
        "    vmovdqu (%rsi), %ymm0\n"                                                              \
        "    vmovdqu 32(%rsi), %ymm1\n"                                                            \
        "    vmovdqu 64(%rsi), %ymm2\n"                                                            \
        "    vmovdqu 96(%rsi), %ymm3\n"                                                            \
        "    vmovdqa %ymm0, (%rdi)\n"                                                              \
        "    vmovdqa %ymm1, 32(%rdi)\n"                                                            \
        "    vmovdqa %ymm2, 64(%rdi)\n"                                                            \
        "    vmovdqa %ymm3, 96(%rdi)\n"                                                            \
        "    add $128, %rsi\n"                                                                     \
        "    add $128, %rdi\n"

#    define ASK_FOR_NEXT_PAGE                                                                      \
        "    prefetcht0 4096(%rsi)\n"                                                              \
        "    prefetcht0 4160(%rsi)\n"                                                              \
        "    prefetcht0 4224(%rsi)\n"                                                              \
        "    prefetcht0 4288(%rsi)\n"                                                              \
        "    prefetchw 4096(%rdi)\n"

/*
 * rdi to, rsi from, rdx bytes. This function calls no other and keeps nothing on the stack, so that
 * fault.c can continue at fan_copy_faulted from any of its instructions, with the error in eax.
 *
 * Processors stop prefetching at the end of a page, and `rep movsb` is ten times slower for
 * destinations a few bytes past the start of a page, which large Python bytes objects have. So up
 * to 384 KiB are copied from four pages at once, which the processor prefetches as four streams.
 * More is copied page by page, and the first lines of the next page are prefetched. `rep movsb` is
 * used only if the destination begins on a cache line.
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
        "    jb .Lfan_string\n"
        "    cmp $2048, %rdx\n"
        "    jb .Lfan_narrow\n"
        "    cmpb $0, fan_copy_has_avx2(%rip)\n"
        "    jne .Lfan_wide\n"
        "    test $63, %dil\n"
        "    jnz .Lfan_narrow\n"

        ".Lfan_string:\n"
        "    mov %rdx, %rcx\n"
        "    rep movsb\n"
        "    xor %eax, %eax\n"
        "    ret\n"

        /* Loads of 16 bytes, aligned stores. The last bytes are stored once more, from xmm5 to
         * r8. */
        ".Lfan_narrow:\n"
        "    movdqu (%rsi), %xmm0\n"
        "    movdqu -16(%rsi,%rdx), %xmm5\n"
        "    lea -16(%rdi,%rdx), %r8\n"
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
        "    jb 4f\n"
        "    movdqu (%rsi), %xmm1\n"
        "    movdqa %xmm1, (%rdi)\n"
        "    add $16, %rsi\n"
        "    add $16, %rdi\n"
        "    jmp 3b\n"
        "4:  movdqu %xmm5, (%r8)\n"
        "    xor %eax, %eax\n"
        "    ret\n"

        /* Like the code above, with 32 bytes, ymm8 and ymm9. */
        ".Lfan_wide:\n"
        "    cmp $393216, %rdx\n"
        "    jb 1f\n"
        "    test $63, %dil\n"
        "    jz .Lfan_string_pages\n"
        "1:  vmovdqu (%rsi), %ymm8\n"
        "    vmovdqu -32(%rsi,%rdx), %ymm9\n"
        "    lea -32(%rdi,%rdx), %r8\n"
        "    vmovdqu %ymm8, (%rdi)\n"
        "    mov %rdi, %rcx\n"
        "    neg %rcx\n"
        "    and $31, %rcx\n"
        "    add %rcx, %rdi\n"
        "    add %rcx, %rsi\n"
        "    sub %rcx, %rdx\n"
        "    cmp $393216, %rdx\n"
        "    jae .Lfan_wide_pages\n"
        "    cmp $16384, %rdx\n"
        "    jb .Lfan_wide_rest\n"

        /* Copies four pages at once. */
        "2:  prefetcht0 16384(%rsi)\n"
        "    prefetcht0 20480(%rsi)\n"
        "    prefetcht0 24576(%rsi)\n"
        "    prefetcht0 28672(%rsi)\n"
        "    mov $64, %ecx\n"
        ".p2align 5\n"
        "3:  vmovdqu (%rsi), %ymm0\n"
        "    vmovdqu 32(%rsi), %ymm1\n"
        "    vmovdqu 4096(%rsi), %ymm2\n"
        "    vmovdqu 4128(%rsi), %ymm3\n"
        "    vmovdqu 8192(%rsi), %ymm4\n"
        "    vmovdqu 8224(%rsi), %ymm5\n"
        "    vmovdqu 12288(%rsi), %ymm6\n"
        "    vmovdqu 12320(%rsi), %ymm7\n"
        "    vmovdqa %ymm0, (%rdi)\n"
        "    vmovdqa %ymm1, 32(%rdi)\n"
        "    vmovdqa %ymm2, 4096(%rdi)\n"
        "    vmovdqa %ymm3, 4128(%rdi)\n"
        "    vmovdqa %ymm4, 8192(%rdi)\n"
        "    vmovdqa %ymm5, 8224(%rdi)\n"
        "    vmovdqa %ymm6, 12288(%rdi)\n"
        "    vmovdqa %ymm7, 12320(%rdi)\n"
        "    add $64, %rsi\n"
        "    add $64, %rdi\n"
        "    dec %ecx\n"
        "    jnz 3b\n"
        "    add $12288, %rsi\n"
        "    add $12288, %rdi\n"
        "    sub $16384, %rdx\n"
        "    cmp $16384, %rdx\n"
        "    jae 2b\n"

        ".Lfan_wide_rest:\n"
        "    sub $128, %rdx\n"
        "    jb 5f\n"
        ".p2align 5\n"
        "4:\n" MOVE_128 "    sub $128, %rdx\n"
        "    jae 4b\n"
        "5:  add $128, %rdx\n"
        "6:  sub $32, %rdx\n"
        "    jb 7f\n"
        "    vmovdqu (%rsi), %ymm0\n"
        "    vmovdqa %ymm0, (%rdi)\n"
        "    add $32, %rsi\n"
        "    add $32, %rdi\n"
        "    jmp 6b\n"
        "7:  vmovdqu %ymm9, (%r8)\n"
        "    vzeroupper\n"
        "    xor %eax, %eax\n"
        "    ret\n"

        /* Copies page by page. */
        ".Lfan_wide_pages:\n" ASK_FOR_NEXT_PAGE "    mov $32, %ecx\n"
        ".p2align 5\n"
        "1:\n" MOVE_128 "    dec %ecx\n"
        "    jnz 1b\n"
        "    sub $4096, %rdx\n"
        "    cmp $8192, %rdx\n"
        "    jae .Lfan_wide_pages\n"
        "    jmp .Lfan_wide_rest\n"

        ".Lfan_string_pages:\n" ASK_FOR_NEXT_PAGE "    mov $4096, %ecx\n"
        "    rep movsb\n"
        "    sub $4096, %rdx\n"
        "    cmp $8192, %rdx\n"
        "    jae .Lfan_string_pages\n"
        "    jmp .Lfan_string\n"
        ".size fan_copy, . - fan_copy\n"

        /* rdi from, rsi bytes: loads one byte of each page. */
        ".p2align 4\n"
        ".globl fan_touch\n"
        ".hidden fan_touch\n"
        ".type fan_touch, @function\n"
        "fan_touch:\n"
        "    lea -1(%rdi,%rsi), %r8\n"
        "1:  movzbl (%rdi), %eax\n"
        "    add $4096, %rdi\n"
        "    sub $4096, %rsi\n"
        "    ja 1b\n"
        "    movzbl (%r8), %eax\n"
        "    xor %eax, %eax\n"
        "    ret\n"
        ".size fan_touch, . - fan_touch\n"

        /* Like fan_touch, but stores. */
        ".p2align 4\n"
        ".globl fan_blot\n"
        ".hidden fan_blot\n"
        ".type fan_blot, @function\n"
        "fan_blot:\n"
        "    lea -1(%rdi,%rsi), %r8\n"
        "1:  movb $0, (%rdi)\n"
        "    add $4096, %rdi\n"
        "    sub $4096, %rsi\n"
        "    ja 1b\n"
        "    movb $0, (%r8)\n"
        "    xor %eax, %eax\n"
        "    ret\n"
        ".size fan_blot, . - fan_blot\n"
        ".globl fan_copy_end\n"
        ".hidden fan_copy_end\n"
        "fan_copy_end:\n"
        ".globl fan_copy_faulted\n"
        ".hidden fan_copy_faulted\n"
        "fan_copy_faulted:\n"
        "    cmpb $0, fan_copy_has_avx2(%rip)\n"
        "    je 1f\n"
        "    vzeroupper\n"
        "1:  ret\n");

#endif
