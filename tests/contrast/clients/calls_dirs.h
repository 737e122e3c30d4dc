/* What the clients calls_dirs_*.c share: names are noted as they come, and shown in order. */
#pragma once

#include "calls.h"

#include <dirent.h>

static char *lines[5000];
static int count;

static int by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *) left, *(char *const *) right);
}

static __attribute__((unused)) void note(const char *text)
{
    lines[count++] = strdup(text);
}

/* What was noted, sorted; `most` lines of it. */
static __attribute__((unused)) void show_noted(const char *label, int most)
{
    qsort(lines, count, sizeof(lines[0]), by_text);
    SHOW("%s: %d", label, count);
    for (int i = 0; i < count && i < most; i++) {
        SHOW("  %s", lines[i]);
    }
    count = 0;
}

static __attribute__((unused)) void note_rest(DIR *dir)
{
    for (struct dirent *each; (each = readdir(dir)) != NULL;) {
        note(each->d_name);
    }
}
