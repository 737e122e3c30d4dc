#include "environment.h"

#include <errno.h>
#include <string.h>

#include "../client/job.h"
#include "../client/overlay.h"

#define PRELOAD FAN_PRELOAD_ENV "="
#define JOB FAN_JOB_ENV "="
#define HANDOFF FAN_HANDOFF_ENV "="

/* The preload, the job, the handoff and the end. */
enum { ADDED = 4, BYTES_MAX = 1 << 24 };

static bool is_variable(const char *entry, const char *name_and_equals)
{
    return strncmp(entry, name_and_equals, strlen(name_and_equals)) == 0;
}

/* Whether an LD_PRELOAD that a program made names the library already. */
static bool names_us(const char *entry)
{
    return strstr(entry, fan_job.preload + sizeof(PRELOAD) - 1) != NULL;
}

/* Whether an entry is an LD_PRELOAD of others, in front of which ours is put. */
static bool is_others_preload(const char *entry)
{
    return fan_job.preload != NULL && is_variable(entry, PRELOAD) && !names_us(entry);
}

int fan_environment_measure(struct fan_environment *made, char *const env[])
{
    size_t count = 0, merged = 0;
    for (; env != NULL && env[count] != NULL; count++) {
        if (merged == 0 && is_others_preload(env[count]))
            merged = strlen(env[count]) + strlen(fan_job.preload) + 2;
    }
    fan_handoff_measure(&made->need);
    if (made->need.bytes > FAN_HANDOFF_BYTES_MAX)
        return -E2BIG;
    made->bytes = (count + ADDED) * sizeof(char *) + sizeof(HANDOFF) + made->need.bytes + merged;
    made->counted = fan_in_vfork_child();
    return made->bytes <= BYTES_MAX ? 0 : -E2BIG;
}

/* The handoff's text after its name, where there is anything to hand on. */
static void put_handoff(struct fan_environment *made, char *variable)
{
    char *text = stpcpy(variable, HANDOFF);
    bool any = made->need.bytes > 0 &&
               fan_handoff_export(text, made->need.bytes, made->counted) > 0;
    made->handoff[0] = any ? variable : NULL;
    made->handoff[1] = NULL;
}

static char *in_front_of(const char *others, char *to)
{
    char *end = stpcpy(stpcpy(to, fan_job.preload), ":");
    strcpy(end, others + sizeof(PRELOAD) - 1);
    return to;
}

void fan_environment_fill(struct fan_environment *made, void *memory, char *const env[])
{
    bool preload = fan_job.preload == NULL, job = preload;
    size_t n = 0, count = 0;
    made->entries = memory;
    while (env != NULL && env[count] != NULL)
        count++;
    char *text = (char *)(made->entries + count + ADDED);
    for (size_t i = 0; i < count; i++) {
        char *entry = env[i];
        if (is_variable(entry, HANDOFF))
            continue;
        if (!preload && is_variable(entry, PRELOAD)) {
            if (is_others_preload(entry))
                entry = in_front_of(entry, text + sizeof(HANDOFF) + made->need.bytes);
            preload = true;
        }
        job = job || is_variable(entry, JOB);
        made->entries[n++] = entry;
    }
    if (!preload)
        made->entries[n++] = (char *)fan_job.preload;
    if (!job)
        made->entries[n++] = (char *)fan_job.variable;
    made->handoff = &made->entries[n];
    put_handoff(made, text);
}

void fan_environment_again(struct fan_environment *made)
{
    char *variable = made->handoff[0];
    if (variable != NULL)
        put_handoff(made, variable);
}

void fan_environment_fini(struct fan_environment *made)
{
    fan_handoff_cancel(made->counted);
}
