/*
 * The environment of a program that is started: the caller's, plus the variables that bring the
 * program into the job, even if the caller removed them. The program does not see what was added:
 * FANSTORE_ADDED lists it as "p" (LD_PRELOAD), "m" (the first library in it) and "j" (the job's
 * directory), and it is removed again at the start. Otherwise a program that runs itself again
 * until a variable is gone would never end.
 *
 * With FANSTORE_OFF=1 the program, and those that inherit the variable, run outside the job.
 */
#ifndef FAN_PRELOAD_ENVIRONMENT_H
#define FAN_PRELOAD_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "../../client/handoff/handoff.h"

#define FAN_ADDED_ENV "FANSTORE_ADDED"
#define FAN_OFF_ENV "FANSTORE_OFF"

/* If LD_LIBRARY_PATH is set to another value for the dynamic linker, these tell the next program
 * its own value: WAS holds it; NONE means that it has none. */
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

/* Measures how much memory the environment made from `env` needs. Returns 0, -E2BIG, or -EIO: start
 * no program (fan_job_joinable). */
int fan_environment_measure(struct fan_environment *made, char *const env[]);

/* Makes the environment in `memory`. Undo it with fan_environment_fini if the exec fails. */
void fan_environment_fill(struct fan_environment *made, void *memory, char *const env[]);

/* Makes the environment again, after placeholders have become real files. */
void fan_environment_again(struct fan_environment *made);

void fan_environment_fini(struct fan_environment *made);

/* Whether FANSTORE_OFF has this value (NULL: it is not set). */
bool fan_environment_off(const char *value);

/* Call it when a program starts: removes from its environment what FANSTORE_ADDED lists. */
void fan_environment_hide(char **env);

/* find returns the place of a variable ("NAME=") in an environment, or NULL. remove removes the
 * entry at a place; NULL is allowed. */
char **fan_environment_find(char **env, const char *name_and_equals);
void fan_environment_remove(char **at);

#endif
