/*
 * The environment that a program is started with: what the caller gives, and what brings it under
 * the job, whatever was taken out. The program does not see what its caller had not given:
 * FANSTORE_ADDED says what that is, "p" (LD_PRELOAD), "m" (its first library) and "j" (the job's
 * directory). One that runs itself again until a variable is gone comes to an end so.
 *
 * With FANSTORE_OFF=1 the program, and what inherits that, runs outside the job.
 */
#ifndef FAN_PRELOAD_ENVIRONMENT_H
#define FAN_PRELOAD_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "../../client/handoff/handoff.h"

#define FAN_ADDED_ENV "FANSTORE_ADDED"
#define FAN_OFF_ENV "FANSTORE_OFF"

/* How the next program learns what its LD_LIBRARY_PATH is to be, where the one that is set for the
 * dynamic linker is another: WAS holds it; NONE says that it is to have none. */
#define FAN_LIBRARY_PATH "LD_LIBRARY_PATH"
#define FAN_LIBRARY_PATH_WAS "FANSTORE_LD_LIBRARY_PATH"
#define FAN_LIBRARY_PATH_NONE "FANSTORE_NO_LD_LIBRARY_PATH"

struct fan_environment {
    char **entries;
    char **handoff;              /* the last entry, if there is one of ours */
    struct fan_handoff_need need; /* what the program inherits */
    bool counted;                /* as in fan_handoff_export */
    bool off;                    /* the program runs outside the job: nothing is handed on */
    size_t bytes;                /* of memory to be given to fan_environment_fill */
};

/* How much memory the environment made of `env` needs. 0, -E2BIG, or -EIO: nothing is to be started
 * (fan_job_joinable). */
int fan_environment_measure(struct fan_environment *made, char *const env[]);

/* Makes it. To be undone with fan_environment_fini when the exec failed. */
void fan_environment_fill(struct fan_environment *made, void *memory, char *const env[]);

/* Once more, when placeholders have become real files since. */
void fan_environment_again(struct fan_environment *made);

void fan_environment_fini(struct fan_environment *made);

/* Whether FANSTORE_OFF has this value (NULL: it is not set). */
bool fan_environment_off(const char *value);

/* When a program starts: takes what FANSTORE_ADDED names out of its environment again. */
void fan_environment_hide(char **env);

/* The place of a variable ("NAME=") in an environment, or NULL; and what removes the entry at a
 * place, if there is one. */
char **fan_environment_find(char **env, const char *name_and_equals);
void fan_environment_remove(char **at);

#endif
