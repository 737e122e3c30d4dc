/* A program without any library: writes the file that it is given to its standard output. */
static long call(long n, long a, long b, long c)
{
    long rc;
    register long none __asm__("r9") = 0; /* no mark of the library's */
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(none)
                     : "rcx", "r11", "memory");
    return rc;
}
__attribute__((used)) void begin(long *stack)
{
    static char piece[4096];
    long fd = call(2, stack[2], 0, 0), got;
    while (fd >= 0 && (got = call(0, fd, (long)piece, sizeof(piece))) > 0)
        call(1, 1, (long)piece, got);
    call(231, fd < 0 ? -fd : 0, 0, 0);
}
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");
