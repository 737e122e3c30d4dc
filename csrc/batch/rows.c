#include "rows.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads an open file, which must have exactly as many bytes as the row. Returns 1; on failure 0
 * with *error set. */
static int fill(int fd, char *row, uint64_t bytes, int32_t *error)
{
    struct stat st;
    int known = fstat(fd, &st) == 0;
    *error = known ? 0 : errno;
    if (!known || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != bytes)
        return 0;
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = read(fd, row + done, bytes - done);
        if (got <= 0) {
            *error = got < 0 ? errno : 0; /* 0: the file has become shorter */
            return 0;
        }
        done += (uint64_t)got;
    }
    return 1;
}

uint64_t fan_read_rows(const char *paths, uint64_t count, char *rows, uint64_t row_bytes,
                       int32_t *error)
{
    *error = 0;
    for (uint64_t i = 0; i < count; i++) {
        int fd = open(paths, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            *error = errno;
            return i;
        }
        int filled = fill(fd, rows + i * row_bytes, row_bytes, error);
        close(fd);
        if (!filled)
            return i;
        paths += strlen(paths) + 1;
    }
    return count;
}
