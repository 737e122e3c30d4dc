/* Handing written data to the disk early, so that a sync at the end has little to wait for. */
#ifndef FAN_PREPARE_WRITEBACK_H
#define FAN_PREPARE_WRITEBACK_H

#include <stdint.h>

/* cffi: begin */
/* Starts writing these bytes of a file to its disk. Waits for none of it; a hint, which a file
 * system may not know. */
void fan_start_writeback(int fd, uint64_t offset, uint64_t bytes);
/* cffi: end */

#endif
