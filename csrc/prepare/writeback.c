#include "writeback.h"

#include <fcntl.h>

void fan_start_writeback(int fd, uint64_t offset, uint64_t bytes)
{
    (void)sync_file_range(fd, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
}
