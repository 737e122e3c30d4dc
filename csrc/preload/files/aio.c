/*
 * POSIX AIO. libc reads in threads of its own, without calling this library. So a read of a file of
 * ours is done at once, and is complete when the call returns. libc's aio_error, aio_return and
 * aio_suspend only look at the control block.
 */
#include <aio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../client/content/content_io.h"
#include "../../client/files/filetable.h"
#include "../real.h"

enum { PRIORITY_MAX = 20 }; /* libc's limit */

static struct fan_file *regular(const struct aiocb *block)
{
    struct fan_file *file = fan_given(block) ? fan_file_get(block->aio_fildes) : NULL;
    return file != NULL && file->kind == FAN_FILE_REGULAR ? file : NULL;
}

static void finish(struct aiocb *block, ssize_t rc)
{
    block->__return_value = rc < 0 ? -1 : rc;
    block->__error_code = rc < 0 ? (int)-rc : 0;
}

static void read_now(struct fan_file *file, struct aiocb *block)
{
    finish(block, fan_content_pread(file, (void *)block->aio_buf, block->aio_nbytes,
                                    block->aio_offset));
}

FAN_EXPORT int aio_read(struct aiocb *block)
{
    struct fan_file *file = regular(block);
    struct aiocb *none[1] = {NULL};
    if (file == NULL)
        return REAL(aio_read)(block);
    if (block->aio_reqprio < 0 || block->aio_reqprio > PRIORITY_MAX) {
        finish(block, -EINVAL);
        errno = EINVAL;
        return -1;
    }
    read_now(file, block);
    if (block->aio_sigevent.sigev_notify != SIGEV_NONE) /* libc notifies of an empty list at once */
        REAL(lio_listio)(LIO_NOWAIT, none, 0, &block->aio_sigevent);
    return 0;
}

static bool is_ours(const struct aiocb *block)
{
    return fan_given(block) && block->aio_lio_opcode == LIO_READ && regular(block) != NULL;
}

/* Does the reads in a list that are of our files, and removes them from the list. Returns whether
 * any failed. */
static bool read_list(struct aiocb *list[], int count)
{
    bool failed = false;
    for (int i = 0; i < count; i++) {
        struct aiocb *block = list[i], *none[1] = {NULL};
        if (!is_ours(block))
            continue;
        read_now(regular(block), block);
        failed = failed || block->__error_code != 0;
        if (block->aio_sigevent.sigev_notify != SIGEV_NONE)
            REAL(lio_listio)(LIO_NOWAIT, none, 0, &block->aio_sigevent);
        list[i] = NULL;
    }
    return failed;
}

FAN_EXPORT int lio_listio(int mode, struct aiocb *const list[], int count, struct sigevent *event)
{
    int first = 0;
    while (fan_job.view_count > 0 && first < count && !is_ours(list[first]))
        first++;
    if (fan_job.view_count == 0 || first >= count || (mode != LIO_WAIT && mode != LIO_NOWAIT))
        return REAL(lio_listio)(mode, list, count, event);
    struct aiocb **others = malloc((size_t)count * sizeof(*others));
    if (others == NULL) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(others, list, (size_t)count * sizeof(*others));
    bool failed = read_list(others, count);
    int rc = REAL(lio_listio)(mode, others, count, event);
    free(others);
    if (rc == 0 && failed && mode == LIO_WAIT) {
        errno = EIO;
        return -1;
    }
    return rc;
}
