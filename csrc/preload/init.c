/* Attaching to the job when a program starts. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../client/filetable.h"
#include "../client/handoff.h"
#include "../client/job.h"
#include "../client/outputs.h"
#include "../client/overlay.h"
#include "start.h"
#include "streams.h"

/* The value of a variable in an environment, taken out of it when `take`: from the one
 * that the constructor is given, which nobody has changed yet. */
static const char *variable(char **env, const char *name, int take)
{
    size_t length = strlen(name);
    for (char **at = env; at != NULL && *at != NULL; at++) {
        if (strncmp(*at, name, length) != 0 || (*at)[length] != '=')
            continue;
        const char *value = *at + length + 1;
        if (take) {
            for (char **rest = at; *rest != NULL; rest++)
                rest[0] = rest[1];
        }
        return value;
    }
    return NULL;
}

__attribute__((constructor)) static void fan_init(int argc, char **argv, char **env)
{
    (void)argc;
    (void)argv;
    const char *directory = variable(env, "FANSTORE_JOB_DIR", 0);
    const char *handed = variable(env, FAN_HANDOFF_ENV, 1);
    if (directory == NULL || fan_job_attach(directory) != 0)
        return;
    fan_overlay_set_owner();
    fan_start_set_environment(directory);
    pthread_atfork(fan_file_before_fork, NULL, fan_file_after_fork_child);
    if (handed == NULL)
        return;
    fan_handoff_adopt(handed);
    fan_stream_take_stdin();
}

/* Libraries may write after this, and libc flushes its streams: the daemon looks at the outputs
 * when the process has gone. */
__attribute__((destructor)) static void fan_fini(void)
{
    fan_output_at_exit();
}
