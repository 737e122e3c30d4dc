#include "load.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../client/code/code.h"
#include "../real.h"

/* A thread's last dlopen. */
struct last {
    char *given;        /* the program's path, if another one was passed */
    const char *passed; /* the path that was passed; it is never freed */
    char *refusal;      /* the whole text of a refusal */
    char *shown;        /* the text that dlerror returned */
};

static pthread_key_t key;
static bool has_key;

static void drop(void *argument)
{
    struct last *last = argument;
    free(last->given);
    free(last->refusal);
    free(last->shown);
    free(last);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, drop) == 0;
}

static struct last *find_last(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    return has_key ? pthread_getspecific(key) : NULL;
}

static struct last *take_last(void)
{
    struct last *last = find_last();
    if (last != NULL || !has_key)
        return last;
    last = calloc(1, sizeof(*last));
    if (last != NULL && pthread_setspecific(key, last) != 0) {
        free(last);
        return NULL;
    }
    return last;
}

/* Returns a path that no file has: files in that directory have numbers as names. */
static const char *nowhere(void)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s/code/none", fan_job.directory.text);
    const char *kept = length < PATH_MAX ? fan_code_keep(path) : NULL;
    return kept != NULL ? kept : "/proc/self/fd/none";
}

const char *fan_load_refuse(const char *given, int error)
{
    struct last *last = take_last();
    char room[128];
    const char *what = error == EISDIR ? "cannot read file data"
                                       : "cannot open shared object file";
    if (last != NULL) {
        free(last->refusal);
        const char *why = strerror_r(error, room, sizeof(room));
        if (asprintf(&last->refusal, "%s: %s: %s", given, what, why) < 0)
            last->refusal = NULL;
    }
    return nowhere();
}

void fan_load_note(const char *given, const char *passed)
{
    struct last *last = given != passed ? take_last() : find_last();
    if (last == NULL)
        return;
    free(last->given);
    last->given = given != passed ? strdup(given) : NULL;
    last->passed = passed;
}

/* Returns whether an error's text is about `path`. */
static bool is_about(const char *text, const char *path)
{
    size_t bytes = strlen(path);
    return strncmp(text, path, bytes) == 0 && text[bytes] == ':';
}

/* Returns the text with the program's paths, which the caller frees, or NULL. */
static char *translate(const struct last *last, const char *text)
{
    bool about = last != NULL && last->given != NULL && is_about(text, last->passed);
    if (about && last->refusal != NULL && last->passed == nowhere())
        return strdup(last->refusal);
    const char *rest = about ? text + strlen(last->passed) : text;
    const char *head = about ? last->given : "";
    size_t bytes = strlen(rest) + fan_job.view_count * PATH_MAX + 1;
    char *tail = malloc(bytes), *answer = NULL;
    if (tail != NULL && fan_code_shown(rest, tail, bytes) >= 0 &&
        asprintf(&answer, "%s%s", head, tail) < 0)
        answer = NULL;
    free(tail);
    return answer;
}

FAN_EXPORT char *dlerror(void)
{
    char *text = REAL(dlerror)();
    if (text == NULL || fan_job.view_count == 0 || strstr(text, fan_job.directory.text) == NULL)
        return text;
    struct last *last = take_last();
    char *answer = last != NULL ? translate(last, text) : NULL;
    if (answer == NULL)
        return text;
    free(last->shown);
    last->shown = answer;
    return answer;
}
