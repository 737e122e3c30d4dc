/* A library, and with MAIN a program, that reads and saves as Rust's tempfile and rustix do. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "rawcalls.h"

static const char *root;

static const char *below(const char *name)
{
    static char texts[2][4096];
    static int next;
    char *text = texts[next++ % 2];
    snprintf(text, sizeof(texts[0]), "%s/%s", root, name);
    return text;
}

static void show(const char *what, long rc)
{
    printf("%s %ld\n", what, rc);
}

static void read_input(const char *name)
{
    char piece[64];
    struct statx is;
    long fd = raw_open(below(name), 0, 0), got = fd < 0 ? fd : raw_read(fd, piece, sizeof(piece));
    printf("%s %ld %.*s\n", name, fd < 0 ? fd : 0, got > 0 ? (int)got : 0, piece);
    if (fd >= 0) {
        show("end", raw_seek(fd, 0));
        show("close", raw_close(fd));
        show("again", raw_close(fd));
    }
    long rc = raw_statx(below(name), &is);
    printf("statx %ld %llu %o\n", rc, rc == 0 ? (long long)is.stx_size : 0, rc == 0 ? is.stx_mode : 0);
}

static void save(const char *name, const char *content)
{
    long fd = raw_open(below(".tmpx"), 0102 | 0200 | 02000000, 0600);
    printf("save %s %ld", name, fd < 0 ? fd : 0);
    if (fd >= 0) {
        printf(" %ld", raw_write(fd, content, (long)strlen(content)));
        printf(" %ld", raw_rename(below(".tmpx"), below(name)));
        printf(" %ld", raw_close(fd));
    }
    printf("\n");
    raw_unlink(below(".tmpx"), 0);
}

static void list(const char *name)
{
    char entries[4096];
    long fd = raw_open(below(name), 0200000, 0), got, count = 0;
    while (fd >= 0 && (got = raw_list(fd, entries, sizeof(entries))) > 0) {
        for (long at = 0; at < got; at += ((struct dirent64 *)(entries + at))->d_reclen)
            count++;
    }
    printf("list %s %ld %ld\n", name, fd < 0 ? fd : 0, count);
    if (fd >= 0)
        raw_close(fd);
}

#define TELL(call) show(#call, call)
#define P(name) ((long)below(name))
#define T(text) ((long)(text))

/* Attributes, watches and handles: of an input or of an output, which may be changed. */
static void attributes(const char *name, int made)
{
    char value[64] = "", handle[8 + 128] = {0};
    int mount_id, watches = inotify_init1(IN_NONBLOCK);
    struct statx is;
    printf("%s\n", made ? name : "-");
    if (made) {
        TELL(raw_setxattr(P(name), T("user.one"), T("1st"), 3, 0));
        TELL(raw_lsetxattr(P(name), T("user.two"), T("second"), 6, 0));
        TELL(raw_lsetxattr(P(name), T("user.two"), T("second"), 6, XATTR_CREATE));
    }
    TELL(raw_getxattr(P(name), T("user.one"), T(value), sizeof(value), 0));
    TELL(raw_lgetxattr(P(name), T("user.two"), T(value), sizeof(value), 0));
    puts(value);
    TELL(raw_getxattr(P(name), T("none"), T(value), sizeof(value), 0));
    TELL(raw_listxattr(P(name), T(value), sizeof(value), 0, 0));
    TELL(raw_llistxattr(P(name), 0, 0, 0, 0));
    if (made) {
        TELL(raw_removexattr(P(name), T("user.one"), 0, 0, 0));
        TELL(raw_removexattr(P(name), T("user.one"), 0, 0, 0));
        TELL(raw_lremovexattr(P(name), T("user.two"), 0, 0, 0));
    } else { /* what an input answers where a plain file is changed */
        long rc = raw_setxattr(P("a.txt"), T("user.one"), T("1st"), 3, 0);
        show("set", rc == 0 || rc == -30);
        rc = raw_removexattr(P("a.txt"), T("user.one"), 0, 0, 0);
        show("removed", rc == 0 || rc == -30);
    }
    show("watch", raw_inotify_add_watch(watches, P(name), IN_MODIFY, 0, 0) > 0);
    TELL(raw_inotify_add_watch(watches, P("none"), IN_MODIFY, 0, 0));
    TELL(raw_inotify_add_watch(watches, P("a.txt/x"), IN_MODIFY, 0, 0));
    *(unsigned *)handle = 128;
    if (made)
        TELL(raw_name_to_handle_at(HERE, P(name), T(handle), T(&mount_id), 0));
    TELL(raw_name_to_handle_at(HERE, P("none"), T(handle), T(&mount_id), 0));
    if (made) {
        long rc = raw_fchmodat2(HERE, P(name), 0640, 0, 0);
        raw_statx(below(name), &is);
        show("fchmodat2", rc == -38 || (rc == 0 && (is.stx_mode & 07777) == 0640));
    }
}

void all_calls(const char *directory)
{
    char target[64] = "";
    root = directory;
    read_input("a.txt");
    read_input("sub/deep");
    read_input("none");
    show("link", raw_link(below("link"), target, sizeof(target)));
    puts(target);
    show("mkdir", raw_mkdir(below("ckpt")));
    show("again", raw_mkdir(below("ckpt")));
    save("ckpt/model", "weights");
    read_input("ckpt/model");
    save("ckpt/model", "other weights");
    read_input("ckpt/model");
    save("ckpt/no/model", "weights");
    save("no/model", "weights");
    list("ckpt");
    list("sub");
    attributes("a.txt", 0);
    attributes("link", 0);
    attributes("none", 0);
    attributes("ckpt/model", 1);
    save("ckpt/gone", "x");
    show("unlink", raw_unlink(below("ckpt/gone"), 0));
    show("unlink", raw_unlink(below("ckpt/gone"), 0));
    show("rmdir", raw_unlink(below("ckpt"), 0x200));
    fflush(stdout);
}

__attribute__((used)) static volatile int changed;
__attribute__((used)) static const char *volatile path_asked;

/* Nothing but rax, rcx and r11 may change at the instruction: 0, or what did. */
int changed_registers(const char *path)
{
    long rc;
    changed = 0;
    path_asked = path;
    __asm__ volatile(
        "subq $256, %%rsp\n"
        "movq $0x1234, 120(%%rsp)\n" /* below the stack's end, as a function without calls may */
        "addq $248, %%rsp\n"
        "movq path_asked(%%rip), %%rsi\n"
        "movl $7, %%r12d\n movl $8, %%r13d\n movl $9, %%r14d\n movl $10, %%r15d\n movl $11, %%ebx\n"
        "movl $0x55, %%eax\n movd %%eax, %%xmm0\n movd %%eax, %%xmm15\n"
        "movl $12, %%r8d\n movl $13, %%r9d\n"
        "stc\n"
        "movl $257, %%eax\n"
        "movl $-100, %%edi\n movl $0, %%edx\n movl $0, %%r10d\n"
        "syscall\n"
        "jc 1f\n orl $1, changed(%%rip)\n"
        "1: cmpl $7, %%r12d\n je 2f\n orl $2, changed(%%rip)\n"
        "2: cmpl $10, %%r15d\n je 3f\n orl $4, changed(%%rip)\n"
        "3: cmpl $11, %%ebx\n je 4f\n orl $8, changed(%%rip)\n"
        "4: cmpq $0x1234, -128(%%rsp)\n je 5f\n orl $16, changed(%%rip)\n"
        "5: movd %%xmm0, %%ecx\n cmpl $0x55, %%ecx\n je 6f\n orl $32, changed(%%rip)\n"
        "6: movd %%xmm15, %%ecx\n cmpl $0x55, %%ecx\n je 7f\n orl $64, changed(%%rip)\n"
        "7: cmpl $-100, %%edi\n je 8f\n orl $128, changed(%%rip)\n"
        "8: cmpl $12, %%r8d\n je 9f\n orl $256, changed(%%rip)\n"
        "9: cmpl $13, %%r9d\n je 10f\n orl $512, changed(%%rip)\n"
        "10: addq $8, %%rsp\n"
        : "=a"(rc)
        :
        : "rcx", "r11", "rbx", "rdi", "rsi", "rdx", "r8", "r9", "r10", "r12", "r13", "r14", "r15",
          "xmm0", "xmm15", "memory", "cc");
    return rc < 0 ? (int)rc : changed;
}

#ifdef MAIN
int main(int argc, char **argv)
{
    (void)argc;
    all_calls(argv[1]);
    printf("registers %d\n", changed_registers(below("a.txt")));
    return 0;
}
#endif
