/* Implements copy.h with instructions of aarch64. Every such processor has the wide registers, and
 * prefetches sequential reads by itself. */
#include "copy.h"

#if defined(__aarch64__)

/*
 * These functions call no others and keep nothing on the stack, so that fault.c can continue at
 * fan_copy_faulted from any of their instructions, with the error in w0.
 *
 * fan_copy: x0 to, x1 from, x2 bytes. Stores are aligned; the last 16 bytes are stored once more,
 * from q17 to x5.
 */
__asm__(".text\n"
        ".p2align 6\n"
        ".globl fan_copy\n"
        ".hidden fan_copy\n"
        ".type fan_copy, %function\n"
        "fan_copy:\n"
        ".globl fan_copy_begin\n"
        ".hidden fan_copy_begin\n"
        "fan_copy_begin:\n"
        "    cmp x2, #16\n"
        "    b.lo .Lfan_short\n"
        "    add x4, x1, x2\n"
        "    add x5, x0, x2\n"
        "    ldr q16, [x1]\n"
        "    ldur q17, [x4, #-16]\n"
        "    str q16, [x0]\n"
        "    neg x3, x0\n"
        "    and x3, x3, #15\n" /* bytes up to an aligned destination */
        "    add x0, x0, x3\n"
        "    add x1, x1, x3\n"
        "    sub x2, x2, x3\n"
        "    subs x2, x2, #64\n"
        "    b.lo 2f\n"
        ".p2align 5\n"
        "1:  ldp q0, q1, [x1]\n"
        "    ldp q2, q3, [x1, #32]\n"
        "    stp q0, q1, [x0]\n"
        "    stp q2, q3, [x0, #32]\n"
        "    add x1, x1, #64\n"
        "    add x0, x0, #64\n"
        "    subs x2, x2, #64\n"
        "    b.hs 1b\n"
        "2:  add x2, x2, #64\n"
        "3:  subs x2, x2, #16\n"
        "    b.lo 4f\n"
        "    ldr q0, [x1], #16\n"
        "    str q0, [x0], #16\n"
        "    b 3b\n"
        "4:  stur q17, [x5, #-16]\n"
        "    mov w0, #0\n"
        "    ret\n"

        ".Lfan_short:\n"
        "    cbz x2, 2f\n"
        "1:  ldrb w3, [x1], #1\n"
        "    strb w3, [x0], #1\n"
        "    subs x2, x2, #1\n"
        "    b.ne 1b\n"
        "2:  mov w0, #0\n"
        "    ret\n"
        ".size fan_copy, . - fan_copy\n"

        /* x0 from, x1 bytes: loads one byte in 4 KiB, the smallest size of a page. */
        ".p2align 4\n"
        ".globl fan_touch\n"
        ".hidden fan_touch\n"
        ".type fan_touch, %function\n"
        "fan_touch:\n"
        "    add x2, x0, x1\n"
        "1:  ldrb w3, [x0]\n"
        "    add x0, x0, #4096\n"
        "    subs x1, x1, #4096\n"
        "    b.hi 1b\n"
        "    ldurb w3, [x2, #-1]\n"
        "    mov w0, #0\n"
        "    ret\n"
        ".size fan_touch, . - fan_touch\n"

        /* Like fan_touch, but stores. */
        ".p2align 4\n"
        ".globl fan_blot\n"
        ".hidden fan_blot\n"
        ".type fan_blot, %function\n"
        "fan_blot:\n"
        "    add x2, x0, x1\n"
        "1:  strb wzr, [x0]\n"
        "    add x0, x0, #4096\n"
        "    subs x1, x1, #4096\n"
        "    b.hi 1b\n"
        "    sturb wzr, [x2, #-1]\n"
        "    mov w0, #0\n"
        "    ret\n"
        ".size fan_blot, . - fan_blot\n"
        ".globl fan_copy_end\n"
        ".hidden fan_copy_end\n"
        "fan_copy_end:\n"
        ".globl fan_copy_faulted\n"
        ".hidden fan_copy_faulted\n"
        "fan_copy_faulted:\n"
        "    ret\n");

#endif
