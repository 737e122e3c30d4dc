#include "handoff.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "../content/remote.h"
#include "../content/session.h"
#include "../files/filetable.h"
#include "../open/dirstream.h"
#include "../outputs/outputs.h"

static const struct fan_file_hooks hooks = {
    .let_go = fan_output_let_go,
    .disown = fan_output_disown,
    .remote_close = fan_remote_close,
    .entries_end = fan_getdents_end,
};

int fan_process_attach(const char *directory, const char *library)
{
    fan_file_hooks = &hooks;
    return fan_job_attach(directory, library);
}

void fan_process_after_fork_child(void)
{
    fan_lane_after_fork_child();
    fan_file_after_fork_child();
    fan_session_after_fork_child();
    fan_output_after_fork_child();
}

void fan_process_watch_forks(void)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    if (fan_job.view_count > 0 && !atomic_flag_test_and_set(&begun))
        pthread_atfork(fan_file_before_fork, NULL, fan_process_after_fork_child);
}
