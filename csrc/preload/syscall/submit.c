/*
 * The kernel's asynchronous calls, which take descriptors without this library seeing them.
 * io_submit(2) looks its descriptors up before it returns: meanwhile a read of an input names a
 * memory file with the requested bytes. A ring of io_uring is filled without any call, so in a job
 * there are no rings: ENOSYS, as in a kernel without them. The functions are those of libaio and
 * liburing, whose own system calls do not go through libc.
 */
#include <errno.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <sys/uio.h>

#include "../../client/machine/copy.h"
#include "../../client/files/filetable.h"
#include "../../client/content/realcopy.h"
#include "../../common/sys.h"
#include "../real.h"
#include "syscall.h"

struct io_uring;
struct io_uring_params;
int io_submit(void *context, long count, struct iocb **list);
int io_uring_setup(unsigned entries, struct io_uring_params *parameters);
int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                               struct io_uring_params *parameters);
int io_uring_queue_init_mem(unsigned entries, struct io_uring *ring,
                            struct io_uring_params *parameters, void *buffer, size_t bytes);

/* Returns the input that an entry of a list reads, and the entry in `block`; NULL if the kernel
 * must handle the entry. */
static struct fan_file *input_of(struct iocb **entry, struct iocb **block)
{
    struct iocb own;
    if (fan_copy(block, entry, sizeof(*block)) != 0 || fan_copy(&own, *block, sizeof(own)) != 0)
        return NULL;
    bool reads = own.aio_lio_opcode == IOCB_CMD_PREAD || own.aio_lio_opcode == IOCB_CMD_PREADV;
    struct fan_file *file = reads ? fan_file_get((int)own.aio_fildes) : NULL;
    return file != NULL && file->kind == FAN_FILE_REGULAR ? file : NULL;
}

/* Returns how many bytes an entry asks for; the kernel reports errors in its vector. */
static uint64_t asked_of(const struct iocb *block)
{
    const struct iovec *vector = (const struct iovec *)(uintptr_t)block->aio_buf;
    uint64_t sum = 0;
    if (block->aio_lio_opcode == IOCB_CMD_PREAD)
        return block->aio_nbytes;
    for (uint64_t i = 0; i < block->aio_nbytes && i < IOV_MAX; i++) {
        struct iovec part;
        if (fan_copy(&part, &vector[i], sizeof(part)) != 0 ||
            __builtin_add_overflow(sum, part.iov_len, &sum))
            return 0;
    }
    return sum;
}

static int memory_for(struct fan_file *file, const struct iocb *block)
{
    uint64_t size = file->record->logical_size, asked = asked_of(block);
    uint64_t rest = (uint64_t)block->aio_offset < size ? size - (uint64_t)block->aio_offset : 0;
    return fan_real_part(file, block->aio_offset, asked < rest ? asked : rest);
}

static long submit_input(long context, struct fan_file *file, struct iocb **entry,
                         struct iocb *block)
{
    const int64_t offset = block->aio_offset;
    const uint32_t fd = block->aio_fildes;
    int memory = memory_for(file, block);
    if (memory < 0)
        return memory;
    block->aio_fildes = (uint32_t)memory;
    block->aio_offset = offset < 0 ? offset : 0;
    long rc = FAN_SYS(io_submit, context, 1, entry);
    block->aio_fildes = fd;
    block->aio_offset = offset;
    fan_sys_close(memory);
    return rc;
}

long fan_submit(long context, long count, void *list)
{
    struct iocb **entries = list, *block;
    long first = 0, done = 0, rc = 1;
    while (fan_job.view_count > 0 && first < count && input_of(&entries[first], &block) == NULL)
        first++;
    if (fan_job.view_count == 0 || first >= count)
        return FAN_SYS(io_submit, context, count, list);
    for (; done < count && rc == 1; done += rc == 1) {
        struct fan_file *file = input_of(&entries[done], &block);
        rc = file != NULL ? submit_input(context, file, &entries[done], block)
                          : FAN_SYS(io_submit, context, 1, &entries[done]);
    }
    return done > 0 ? done : rc;
}

/* Functions of libaio and liburing return -errno, and do not change errno. */
FAN_EXPORT int io_submit(void *context, long count, struct iocb **list)
{
    return (int)fan_submit((long)context, count, list);
}

/* Answers -ENOSYS in a job; outside of one, calls the real function if a later library has it. */
#define NO_RING(name, parameters, arguments)                                                       \
    FAN_EXPORT int name parameters                                                                 \
    {                                                                                              \
        __typeof__(&name) real = fan_job.view_count == 0 ? REAL(name) : NULL;                      \
        return real != NULL ? real arguments : -ENOSYS;                                            \
    }

NO_RING(io_uring_setup, (unsigned entries, struct io_uring_params *parameters),
        (entries, parameters))
NO_RING(io_uring_queue_init, (unsigned entries, struct io_uring *ring, unsigned flags),
        (entries, ring, flags))
NO_RING(io_uring_queue_init_params,
        (unsigned entries, struct io_uring *ring, struct io_uring_params *parameters),
        (entries, ring, parameters))
NO_RING(io_uring_queue_init_mem,
        (unsigned entries, struct io_uring *ring, struct io_uring_params *parameters, void *buffer,
         size_t bytes),
        (entries, ring, parameters, buffer, bytes))
