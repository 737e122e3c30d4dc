#include "../real.h"

#include "../../client/job/lane.h"

/* For the map server (../../maps): this thread's next reads answer touches of a mapping by another
 * thread. */
FAN_EXPORT void fanstore_reads_for(uint32_t tid);

void fanstore_reads_for(uint32_t tid)
{
    fan_trace_serve(tid);
}
