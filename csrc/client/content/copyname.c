#include "copyname.h"

#include <string.h>

static const char kind[] = "fanstore-copy", memory[] = "/memfd:";

/* Returns a number that identifies this job, because a descriptor may come from a process of
 * another job. */
static uint64_t job_number(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *at = fan_job.directory.text; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return hash;
}

static char *put_hex(char *to, uint64_t number)
{
    int shift = 60;
    while (shift > 0 && number >> shift == 0)
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        *to++ = "0123456789abcdef"[number >> shift & 15];
    return to;
}

static bool take_hex(const char **text, uint64_t *number)
{
    const char *start = *text;
    for (*number = 0;; (*text)++) {
        const char c = **text;
        if (c >= '0' && c <= '9')
            *number = *number << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *number = *number << 4 | (uint64_t)(c - 'a' + 10);
        else
            return *text > start;
    }
}

char *fan_copy_name_put(const struct fan_copy_name *copy, char name[FAN_COPY_NAME_BYTES])
{
    const uint64_t numbers[] = {job_number(), (uint64_t)(copy->view - fan_job.views), copy->id,
                                copy->flags};
    char *to = stpcpy(name, kind);
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        *to++ = '.';
        to = put_hex(to, numbers[i]);
    }
    *to = '\0';
    return to;
}

bool fan_copy_name_read(const char *name, struct fan_copy_name *copy)
{
    uint64_t numbers[4];
    if (strncmp(name, kind, sizeof(kind) - 1) != 0)
        return false;
    name += sizeof(kind) - 1;
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (*name++ != '.' || !take_hex(&name, &numbers[i]))
            return false;
    }
    if (numbers[0] != job_number() || numbers[1] >= fan_job.view_count ||
        numbers[2] >= fan_job.views[numbers[1]].record_count)
        return false;
    *copy = (struct fan_copy_name){&fan_job.views[numbers[1]], numbers[2], numbers[3]};
    return *name == '\0' || *name == '.' || *name == ' ';
}

bool fan_copy_name_of_link(const char *link, struct fan_copy_name *copy)
{
    const struct fan_text *job = &fan_job.directory;
    if (strncmp(link, memory, sizeof(memory) - 1) == 0)
        return fan_copy_name_read(link + sizeof(memory) - 1, copy);
    return strncmp(link, job->text, job->bytes) == 0 && link[job->bytes] == '/' &&
           fan_copy_name_read(link + job->bytes + 1, copy);
}
