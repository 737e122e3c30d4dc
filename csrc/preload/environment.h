/*
 * The environment that a program is started with: what the caller gives, and what brings it under
 * the job, whatever was taken out.
 */
#ifndef FAN_PRELOAD_ENVIRONMENT_H
#define FAN_PRELOAD_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "../client/handoff.h"

struct fan_environment {
    char **entries;
    char **handoff;              /* the last entry, if there is one of ours */
    struct fan_handoff_need need; /* what the program inherits */
    bool counted;                /* as in fan_handoff_export */
    size_t bytes;                /* of memory to be given to fan_environment_fill */
};

/* How much memory the environment made of `env` needs. 0 or -E2BIG. */
int fan_environment_measure(struct fan_environment *made, char *const env[]);

/* Makes it. To be undone with fan_environment_fini when the exec failed. */
void fan_environment_fill(struct fan_environment *made, void *memory, char *const env[]);

/* Once more, when placeholders have become real files since. */
void fan_environment_again(struct fan_environment *made);

void fan_environment_fini(struct fan_environment *made);

#endif
