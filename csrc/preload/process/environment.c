#include "environment.h"

#include <errno.h>
#include <string.h>

#include "../../client/machine/vfork.h"
#include "../../client/job/job.h"

#define PRELOAD FAN_PRELOAD_ENV "="
#define JOB FAN_JOB_ENV "="
#define HANDOFF FAN_HANDOFF_ENV "="
#define ADDED FAN_ADDED_ENV "="
#define OFF FAN_OFF_ENV "="

/* Entries that may be added: the preload, the job, FANSTORE_ADDED, the handoff and the end. */
enum { ENTRIES_MORE = 5, BYTES_MAX = 1 << 24 };

/* strncmp may be a sanitizer's, which is not ready yet when a program starts. */
static bool is_variable(const char *entry, const char *name_and_equals)
{
    while (*name_and_equals != '\0' && *entry == *name_and_equals) {
        entry++;
        name_and_equals++;
    }
    return *name_and_equals == '\0';
}

/* Returns whether an LD_PRELOAD of the program's own names this library already. */
static bool names_us(const char *entry)
{
    return strstr(entry, fan_job.preload + sizeof(PRELOAD) - 1) != NULL;
}

/* Returns whether an entry is an LD_PRELOAD with other libraries, in front of which this library is
 * put. */
static bool is_others_preload(const char *entry)
{
    return fan_job.preload != NULL && is_variable(entry, PRELOAD) && !names_us(entry);
}

bool fan_environment_off(const char *value)
{
    return value != NULL && value[0] != '\0' && !(value[0] == '0' && value[1] == '\0');
}

static bool is_off(const char *entry)
{
    return is_variable(entry, OFF) && fan_environment_off(entry + sizeof(OFF) - 1);
}

int fan_environment_measure(struct fan_environment *made, char *const env[])
{
    size_t count = fan_list_count(env), merged = 0;
    made->off = false;
    for (size_t i = 0; i < count; i++) {
        made->off = made->off || is_off(env[i]);
        if (merged == 0 && is_others_preload(env[i]))
            merged = strlen(env[i]) + strlen(fan_job.preload) + 2;
    }
    fan_handoff_measure(&made->need);
    if (made->need.bytes > FAN_HANDOFF_BYTES_MAX)
        return -E2BIG;
    made->bytes =
        (count + ENTRIES_MORE) * sizeof(char *) + sizeof(HANDOFF) + made->need.bytes + merged;
    made->counted = fan_in_vfork_child();
    if (made->bytes > BYTES_MAX)
        return -E2BIG;
    return made->off ? 0 : fan_job_joinable();
}

/* Writes the handoff's text after its name, if there is anything to pass on. */
static void put_handoff(struct fan_environment *made, char *variable)
{
    char *text = stpcpy(variable, HANDOFF);
    bool any = made->need.bytes > 0 && !made->off &&
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

/* Returns the variable that lists what was added, or NULL. */
static const char *what_was_added(bool preload, bool merged, bool job)
{
    if (preload && !merged)
        return job ? NULL : ADDED "j";
    return merged ? (job ? ADDED "m" : ADDED "mj") : (job ? ADDED "p" : ADDED "pj");
}

void fan_environment_fill(struct fan_environment *made, void *memory, char *const env[])
{
    bool preload = fan_job.preload == NULL || made->off, job = preload, merged = false;
    size_t n = 0, count = fan_list_count(env);
    made->entries = memory;
    char *text = (char *)(made->entries + count + ENTRIES_MORE);
    for (size_t i = 0; i < count; i++) {
        char *entry = env[i];
        if (is_variable(entry, HANDOFF) || is_variable(entry, ADDED))
            continue;
        if (!preload && is_variable(entry, PRELOAD)) {
            merged = is_others_preload(entry);
            if (merged)
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
    const char *added = what_was_added(preload, merged, job);
    if (added != NULL)
        made->entries[n++] = (char *)added;
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

char **fan_environment_find(char *const env[], const char *name_and_equals)
{
    for (; env != NULL && *env != NULL; env++) {
        if (is_variable(*env, name_and_equals))
            return (char **)env;
    }
    return NULL;
}

const char *fan_environment_value(char *const env[], const char *name_and_equals)
{
    char **at = fan_environment_find(env, name_and_equals);
    return at != NULL ? *at + strlen(name_and_equals) : NULL;
}

size_t fan_list_count(char *const list[])
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL)
        count++;
    return count;
}

void fan_environment_remove(char **at)
{
    for (; at != NULL && *at != NULL; at++)
        at[0] = at[1];
}

static void drop_first_library(char **at)
{
    char *first = at != NULL ? *at + sizeof(PRELOAD) - 1 : NULL;
    char *rest = first != NULL ? strchr(first, ':') : NULL;
    if (rest != NULL)
        memmove(first, rest + 1, strlen(rest));
}

void fan_environment_hide(char **env)
{
    char **at = fan_environment_find(env, ADDED);
    const char *what = at != NULL ? *at + sizeof(ADDED) - 1 : "";
    fan_environment_remove(at);
    for (; *what != '\0'; what++) {
        if (*what == 'p')
            fan_environment_remove(fan_environment_find(env, PRELOAD));
        else if (*what == 'm')
            drop_first_library(fan_environment_find(env, PRELOAD));
        else if (*what == 'j')
            fan_environment_remove(fan_environment_find(env, JOB));
    }
}
