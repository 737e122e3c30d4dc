#include "process.h"

#include <stddef.h>

#include "filetable.h"
#include "outputs.h"
#include "session.h"

void fan_process_after_fork_child(void)
{
    fan_thread_counters = NULL; /* the parent's thread goes on with them */
    fan_file_after_fork_child();
    fan_session_after_fork_child();
    fan_output_after_fork_child();
}
