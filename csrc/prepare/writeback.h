/* Makes the kernel write data to the disk early, so that a sync at the end has little to wait
 * for. */
#ifndef FAN_PREPARE_WRITEBACK_H
#define FAN_PREPARE_WRITEBACK_H

#include <stdint.h>

/* cffi: begin */
/* Starts to write these bytes of a file to its disk, without waiting. A file system may ignore this
 * hint. */
void fan_start_writeback(int fd, uint64_t offset, uint64_t bytes);
/* cffi: end */

#endif
