#include "fill.h"

#include <errno.h>
#include <sys/mman.h>

#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "../files/filetable.h"
#include "../machine/limit.h"
#include "content_io.h"

/* Several blocks, so that remote ones are fetched side by side. */
enum { PIECE_BYTES = 4 << 20 };

/* write(2) and not a mapping: a page that cannot be had is an error, and not SIGBUS. */
static int write_all(int to, const char *piece, uint64_t bytes)
{
    while (bytes > 0) {
        long put = FAN_SYS(write, to, piece, bytes);
        if (put == -EINTR)
            continue;
        if (put <= 0) /* -EFAULT: a page of the pack that its disk cannot give */
            return put == -ENOSPC || put == -EDQUOT || put == -ENOMEM ? (int)put : -EIO;
        piece += put;
        bytes -= (uint64_t)put;
    }
    return 0;
}

/* What is not in memory as it is, piece by piece; they end where blocks do. */
static int write_pieces(int to, struct fan_file *from, uint64_t offset, uint64_t bytes)
{
    const uint64_t end = offset + bytes, room = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    long at = fan_sys_mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fan_sys_failed(at))
        return (int)at;
    char *piece = (char *)at;
    int rc = 0;
    while (rc == 0 && offset < end) {
        uint64_t step = PIECE_BYTES - offset % PIECE_BYTES;
        step = step < room ? step : room;
        step = step < end - offset ? step : end - offset;
        ssize_t got = fan_content_pread(from, piece, step, (int64_t)offset);
        rc = got > 0 ? write_all(to, piece, (uint64_t)got) : got < 0 ? (int)got : -EIO;
        offset += got > 0 ? (uint64_t)got : 0;
    }
    fan_sys_munmap(piece, room);
    return rc;
}

int fan_fill(int to, struct fan_file *from, int64_t offset, uint64_t bytes)
{
    unsigned generation = atomic_load(&from->generation);
    const char *data = from->record->codec == FAN_CODEC_STORE ? from->data : NULL;
    if (bytes == 0)
        return 0;
    if (!fan_file_limit_allows(bytes))
        return -EFBIG;
    if (data == NULL)
        return write_pieces(to, from, (uint64_t)offset, bytes);
    int rc = write_all(to, data + offset, bytes);
    ssize_t got = fan_content_unless_closed(from, generation, rc == 0 ? (ssize_t)bytes : rc);
    return got < 0 ? (int)got : 0;
}
