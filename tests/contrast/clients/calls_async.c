/*
 * The kernel's asynchronous calls. libaio's are answered; io_uring is refused by libc's syscall(2).
 * What no preload reaches are instructions of a program's own: outputs are the kernel's files and
 * work, a descriptor of an input is refused with EBADF, never answered with wrong bytes.
 */
#include "calls.h"

#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static bool is_input(void)
{
    return strcmp(getenv("KIND"), "input") == 0;
}

/* The right bytes; of an input under a mount EBADF. On the plain side inputs are read, so that what
 * is shown is whether one of both was so. */
static void judge(const char *label, long got, const char *text)
{
    bool right = got == 5 && memcmp(text, "hello", 5) == 0;
    bool refused = got == -EBADF && is_input() && strstr(getenv("T"), "/plain") == NULL;
    SHOW("%s: %s", label, right || refused ? "as it should be" : strerrorname_np(-got));
}

/* libaio's own function, where somebody has it: it answers -errno. */
static long hand_in(aio_context_t context, struct iocb **list)
{
    int (*named)(aio_context_t, long, struct iocb **) = dlsym(RTLD_DEFAULT, "io_submit");
    if (named != NULL && list[0]->aio_nbytes % 2 == 1) {
        return named(context, 1, list);
    }
    long got = syscall(SYS_io_submit, context, 1, list);
    return got < 0 ? -errno : got;
}

static long submit(aio_context_t context, struct iocb *block)
{
    struct iocb *list[] = {block};
    struct io_event event = {0};
    long got = hand_in(context, list);
    if (got < 0) {
        return got;
    }
    got = syscall(SYS_io_getevents, context, 1, 1, &event, NULL);
    return got == 1 ? (long) event.res : -EIO;
}

CASE(libaio_reads)
{
    char text[8] = {0};
    aio_context_t context = 0;
    struct iocb block = {.aio_fildes = reader("small"), .aio_lio_opcode = IOCB_CMD_PREAD,
                         .aio_buf = (unsigned long) text, .aio_nbytes = 5};
    OK(syscall(SYS_io_setup, 4, &context) == 0);
    SHOW("pread %ld %.5s", submit(context, &block), text);
    block.aio_offset = 3;
    block.aio_nbytes = 8;
    SHOW("at 3: %ld %.8s", submit(context, &block), text);
    block.aio_offset = 1 << 30;
    SHOW("behind the end: %ld, itself %d %ld", submit(context, &block), (int) block.aio_fildes > 2,
         (long) block.aio_offset);
    block.aio_offset = 0;
    struct iovec_like { void *base; size_t bytes; } part = {text, 5};
    block.aio_lio_opcode = IOCB_CMD_PREADV;
    block.aio_buf = (unsigned long) &part;
    block.aio_nbytes = 1;
    SHOW("preadv %ld %.5s", submit(context, &block), text);
    block.aio_offset = -1;
    SHOW("before the start: %s", strerrorname_np(-submit(context, &block)));
    block.aio_offset = 0;
    block.aio_lio_opcode = IOCB_CMD_PWRITE;
    SHOW("write: %s", strerrorname_np(-submit(context, &block)));
    block.aio_fildes = open(in_r("small"), O_PATH);
    SHOW("a path: %s", strerrorname_np(-submit(context, &block)));
    OK(syscall(SYS_io_destroy, context) == 0);
}

CASE(libaio_writes_outputs)
{
    char text[] = "written";
    aio_context_t context = 0;
    struct iocb block = {.aio_fildes = open(in_d("f"), O_RDWR | O_CREAT, 0644),
                         .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_buf = (unsigned long) text,
                         .aio_nbytes = 7};
    OK(syscall(SYS_io_setup, 4, &context) == 0);
    SHOW("%ld", submit(context, &block));
    OK(syscall(SYS_io_destroy, context) == 0 && close(block.aio_fildes) == 0);
    show_path("f", in_d("f"));
}

struct ring {
    int fd;
    struct io_uring_params params;
    char *submissions, *completions;
    struct io_uring_sqe *entries;
};

static bool set_up(struct ring *ring)
{
    memset(ring, 0, sizeof(*ring));
    long got;
    __asm__ volatile("syscall"
                     : "=a"(got)
                     : "a"(SYS_io_uring_setup), "D"(4), "S"(&ring->params)
                     : "rcx", "r11", "memory");
    ring->fd = got;
    if (ring->fd < 0) {
        return false; /* a container may forbid it: nothing to be seen then, on either side */
    }
    ring->submissions = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
    ring->completions = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_CQ_RING);
    ring->entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQES);
    return true;
}

static long ask(struct ring *ring, const struct io_uring_sqe *entry)
{
    unsigned *tail = (unsigned *) (ring->submissions + ring->params.sq_off.tail);
    unsigned mask = *(unsigned *) (ring->submissions + ring->params.sq_off.ring_mask);
    unsigned *array = (unsigned *) (ring->submissions + ring->params.sq_off.array);
    ring->entries[*tail & mask] = *entry;
    array[*tail & mask] = *tail & mask;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1) {
        return -errno;
    }
    unsigned *head = (unsigned *) (ring->completions + ring->params.cq_off.head);
    mask = *(unsigned *) (ring->completions + ring->params.cq_off.ring_mask);
    struct io_uring_cqe *found =
        (struct io_uring_cqe *) (ring->completions + ring->params.cq_off.cqes) + (*head & mask);
    long got = found->res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return got;
}

CASE(io_uring_reads)
{
    char text[8] = {0};
    struct ring ring;
    if (!set_up(&ring)) {
        SHOW("not to be had here");
        return;
    }
    struct io_uring_sqe entry = {.opcode = IORING_OP_READ, .fd = reader("small"),
                                 .addr = (unsigned long) text, .len = 5};
    judge("read", ask(&ring, &entry), text);
    entry.fd = open(in_r("small"), O_PATH);
    SHOW("a path: %s", strerrorname_np(-ask(&ring, &entry)));
}

/* As programs do that can live without it. */
CASE(io_uring_falls_back)
{
    char text[8] = {0};
    struct io_uring_params params = {0};
    int ring = syscall(SYS_io_uring_setup, 4, &params);
    OK(strstr(getenv("T"), "/plain") != NULL || (ring < 0 && errno == ENOSYS));
    SHOW("%ld %s", (long) pread(reader("small"), text, 5, 0), text);
}

CASE(io_uring_fixed_files)
{
    char text[8] = {0};
    struct ring ring;
    int fd = reader("small");
    if (!set_up(&ring)) {
        SHOW("not to be had here");
        return;
    }
    long got = syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, &fd, 1);
    struct io_uring_sqe entry = {.opcode = IORING_OP_READ, .flags = IOSQE_FIXED_FILE,
                                 .addr = (unsigned long) text, .len = 5};
    judge("fixed", got < 0 ? -errno : ask(&ring, &entry), text);
}

CASE(io_uring_writes_outputs)
{
    char text[] = "written";
    struct ring ring;
    int fd = open(in_d("f"), O_RDWR | O_CREAT, 0644);
    if (!set_up(&ring)) {
        SHOW("not to be had here");
        return;
    }
    struct io_uring_sqe entry = {.opcode = IORING_OP_WRITE, .fd = fd, .addr = (unsigned long) text, .len = 7};
    SHOW("%ld", ask(&ring, &entry));
    OK(close(fd) == 0);
    show_path("f", in_d("f"));
}

CASE(raw_instruction_reads)
{
    char text[8] = {0};
    long got, fd = reader("small");
    __asm__ volatile("syscall"
                     : "=a"(got)
                     : "a"(SYS_read), "D"(fd), "S"(text), "d"(5)
                     : "rcx", "r11", "memory");
    judge("read", got, text);
}
