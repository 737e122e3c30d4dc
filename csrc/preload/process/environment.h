/*
 * The environment of a program that is started: the caller's, plus the variables that bring the
 * program into the job, even if the caller removed them. The program does not see these:
 * FANSTORE_ADDED lists them as "p" (LD_PRELOAD), "m" (the first library in it) and "j" (the job's
 * directory), and the library removes them at the program's start. Otherwise a program that runs
 * itself again until a variable is gone would never end.
 *
 * With FANSTORE_OFF=1 the program, and those that inherit the variable, run outside the job.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "../../client/handoff/handoff.h"

#define FAN_ADDED_ENV "FANSTORE_ADDED"
#define FAN_OFF_ENV "FANSTORE_OFF"

/* For a program whose LD_LIBRARY_PATH is changed for the dynamic linker: WAS tells it its own
 * value; NONE tells it that it has none. */
#define FAN_LIBRARY_PATH "LD_LIBRARY_PATH"
#define FAN_LIBRARY_PATH_WAS "FANSTORE_LD_LIBRARY_PATH"
#define FAN_LIBRARY_PATH_NONE "FANSTORE_NO_LD_LIBRARY_PATH"

struct fan_environment {
    char **entries;
    char **handoff;               /* the last entry, if it is the handoff */
    struct fan_handoff_need need; /* what descriptors and directories the program inherits */
    bool counted;                /* as in fan_handoff_export */
    bool off;                    /* the program runs outside the job and gets no handoff */
    size_t bytes;                /* of the memory that fan_environment_fill needs */
};

/* Measures the memory that the environment made from `env` needs. Returns 0, -E2BIG, or -EIO if no
 * program may be started (fan_job_joinable). */
int fan_environment_measure(struct fan_environment *made, char *const env[]);

/* Makes the environment in `memory`. Undo it with fan_environment_fini if the exec fails. */
void fan_environment_fill(struct fan_environment *made, void *memory, char *const env[]);

/* Makes the environment again, after placeholders were replaced by real files. */
void fan_environment_again(struct fan_environment *made);

void fan_environment_fini(struct fan_environment *made);

/* Returns whether FANSTORE_OFF has a value that turns FanStore off. value: NULL if it is not
 * set. */
bool fan_environment_off(const char *value);

/* Call it when a program starts: removes from its environment what FANSTORE_ADDED lists. */
void fan_environment_hide(char **env);

/* Find the entry of a variable ("NAME=") in an environment, or its value; return NULL if there is
 * none. fan_environment_remove removes an entry; it may be NULL. */
char **fan_environment_find(char *const env[], const char *name_and_equals);
const char *fan_environment_value(char *const env[], const char *name_and_equals);
void fan_environment_remove(char **at);

/* Returns the number of entries of a list that ends with NULL, or 0 for NULL. */
size_t fan_list_count(char *const list[]);
