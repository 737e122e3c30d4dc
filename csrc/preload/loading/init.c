/* Attaches to the job when a program starts. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../pack/codec.h"
#include "../../client/handoff/handoff.h"
#include "../../client/job/job.h"
#include "../../client/machine/spelling.h"
#include "../../client/outputs/outputs.h"
#include "../../common/sys.h"
#include "../files/cookie.h"
#include "../log.h"
#include "../real.h"
#include "../undeclared.h"
#include "../process/environment.h"
#include "../syscall/raw.h"
#include "load.h"

enum { EXIT_FAILED = 125 }; /* FAILED in fanstore/exit_codes.py */

/* Returns the path of this library; NULL if it is unknown. Takes it from LD_PRELOAD if that names
 * nothing else, because dladdr goes through all of the library's symbols. */
static const char *own_path(char **env)
{
    static const char name[] = "/libfanstore_preload.so";
    const char *preload = fan_environment_value(env, FAN_PRELOAD_ENV "=");
    size_t length = preload != NULL ? strlen(preload) : 0;
    Dl_info own;
    size_t plain = 0; /* strpbrk and strcmp may be TSan's, which is not ready yet */
    while (plain < length && preload[plain] != ':' && preload[plain] != ' ' &&
           preload[plain] != '$')
        plain++;
    if (length >= sizeof(name) && preload[0] == '/' && plain == length &&
        memcmp(preload + length - (sizeof(name) - 1), name, sizeof(name)) == 0)
        return preload;
    return dladdr((const void *)&fan_job, &own) != 0 ? own.dli_fname : NULL;
}

/* Returns whether FanStore made the directory at a mount prefix: it then contains nothing but the
 * note for programs without the library (fanstore/node/prefix.py). */
static bool is_bare(const char *prefix)
{
    static const char note[] = "SERVED-BY-FANSTORE.txt";
    char path[PATH_MAX];
    return fan_join(path, sizeof(path), prefix, strlen(prefix), note) &&
           FAN_SYS(faccessat, AT_FDCWD, path, F_OK) == 0;
}

/* Ends a program that cannot attach to its job, so that it does not find an empty directory. A
 * program that has nothing to do with mounts any more continues: the job is over, belongs to
 * another user, or is not visible in this mount namespace. */
static void refuse(char **env, const char *directory, int error)
{
    static const char prefix[] = "FANSTORE_MOUNT_PREFIX";
    bool wrong = error != -ENOENT && error != -ENOTDIR && error != -EACCES;
    for (char **at = env; !wrong && *at != NULL; at++) {
        const char *value = strncmp(*at, prefix, sizeof(prefix) - 1) == 0 ? strchr(*at, '=') : NULL;
        wrong = value != NULL && is_bare(value + 1);
    }
    if (!wrong)
        return;
    dprintf(STDERR_FILENO,
            "fanstore: the job in %s cannot be joined: %s. The program would not see the mounts, so "
            "it ends. If it needs none: FANSTORE_OFF=1 in its environment.\n",
            directory, strerror(-error));
    FAN_SYS(exit_group, EXIT_FAILED);
}

/* Runs before all other initialisation (-z initfirst): before that of libc, so environ is not set
 * yet, and of libraries in front of libc (an allocator, a sanitizer). So nothing here may allocate,
 * or call a function that such libraries replace. */
__attribute__((constructor)) static void fan_init(int argc, char **argv, char **env)
{
    (void)argc;
    (void)argv;
    const char *directory = fan_environment_value(env, FAN_JOB_ENV "=");
    const char *handed = fan_environment_value(env, FAN_HANDOFF_ENV "=");
    fan_environment_remove(fan_environment_find(env, FAN_HANDOFF_ENV "="));
    fan_codec_load_with(dlopen); /* this library's, which knows of mounts */
    bool off = fan_environment_off(fan_environment_value(env, FAN_OFF_ENV "="));
    bool member = !off && directory != NULL && directory[0] != '\0';
    int error = member ? fan_process_attach(directory, own_path(env)) : 0;
    if (error != 0)
        refuse(env, directory, error);
    fan_environment_hide(env);
    if (fan_job.view_count == 0)
        return;
    fan_log_begin(fan_environment_value(env, FAN_LOG_ENV "="));
    fan_load_begin(env);
    if (handed != NULL)
        fan_handoff_adopt(handed);
}

/* A program's first instructions call this function when all libraries are ready. It does the rest
 * of the start, which allocates. */
FAN_EXPORT int __libc_start_main(int (*start)(int, char **, char **), int argc, char **argv,
                                 void (*init)(void), void (*fini)(void), void (*at_end)(void),
                                 void *stack_end)
{
    if (fan_job.view_count > 0) {
        fan_raw_begin(getenv(FAN_REDIRECT_ENV));
        fan_python_begin(argv);
        fan_process_watch_forks();
        fan_stream_take_stdin();
    }
    return REAL(__libc_start_main)(start, argc, argv, init, fini, at_end, stack_end);
}

/* AddressSanitizer as a shared library ends a program that loads another library before it, because
 * that might replace malloc. This library does not. AddressSanitizer calls this function before it
 * checks the order; the user's ASAN_OPTIONS override the result. */
FAN_EXPORT const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}

/* Libraries may still write after this, and libc flushes its streams. So the daemon looks at the
 * outputs only when the process has ended. */
__attribute__((destructor)) static void fan_fini(void)
{
    fan_output_at_exit();
}
