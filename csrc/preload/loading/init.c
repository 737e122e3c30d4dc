/* Attaching to the job when a program starts. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../../client/handoff/process.h"
#include "../../pack/codec.h"
#include "../../client/files/filetable.h"
#include "../../client/handoff/handoff.h"
#include "../../client/job/job.h"
#include "../../client/outputs/outputs.h"
#include "../files/cookie.h"
#include "../log.h"
#include "../process/environment.h"
#include "../syscall/raw.h"
#include "load.h"
#include "python_hook.h"

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

/* The path of this library: what LD_PRELOAD names where that is all it names, for dladdr goes
 * through all of the library's symbols. NULL when it is not known. */
static const char *own_path(char **env)
{
    static const char name[] = "/libfanstore_preload.so";
    const char *preload = variable(env, FAN_PRELOAD_ENV, 0);
    size_t length = preload != NULL ? strlen(preload) : 0;
    Dl_info own;
    if (length >= sizeof(name) && preload[0] == '/' && strpbrk(preload, ": $") == NULL &&
        strcmp(preload + length - (sizeof(name) - 1), name) == 0)
        return preload;
    return dladdr((const void *)&fan_job, &own) != 0 ? own.dli_fname : NULL;
}

__attribute__((constructor)) static void fan_init(int argc, char **argv, char **env)
{
    (void)argc;
    (void)argv;
    const char *directory = variable(env, FAN_JOB_ENV, 0);
    const char *handed = variable(env, FAN_HANDOFF_ENV, 1);
    fan_codec_load_with(dlopen); /* ours, which knows of mounts */
    bool off = fan_environment_off(variable(env, FAN_OFF_ENV, 0));
    bool attached = !off && directory != NULL && fan_process_attach(directory, own_path(env)) == 0;
    fan_environment_hide(env);
    if (!attached)
        return;
    fan_log_begin(variable(env, FAN_LOG_ENV, 0));
    fan_load_begin(env);
    fan_raw_begin(variable(env, FAN_REDIRECT_ENV, 0));
    fan_python_begin();
    pthread_atfork(fan_file_before_fork, NULL, fan_process_after_fork_child);
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
