#include "python_debug.h"

#include <stdlib.h>
#include <string.h>

/* Returns the value of option -X in a word of options such as "-bXdev", or of the next word; NULL
 * if the word has none. Sets `*at` to the last word that was used, and `*ended` if the words after
 * it belong to the program that Python runs. */
static const char *x_value(char *const argv[], int *at, bool *ended)
{
    for (const char *option = argv[*at] + 1; *option != '\0'; option++) {
        if (strchr("cm", *option) != NULL) {
            *ended = true;
            return NULL;
        }
        if (strchr("XW", *option) == NULL)
            continue;
        const char *value = option[1] != '\0' ? option + 1 : argv[++*at];
        return *option == 'X' ? value : NULL;
    }
    return NULL;
}

static bool asked_for_by_option(char *const argv[])
{
    bool ended = argv[0] == NULL;
    for (int i = 1; !ended && argv[i] != NULL && argv[i][0] == '-' && argv[i][1] != '-'; i++) {
        const char *value = x_value(argv, &i, &ended);
        if (value != NULL && strcmp(value, "dev") == 0)
            return true;
        if (argv[i] == NULL)
            return false;
    }
    return false;
}

bool fan_python_debugs(char *const argv[])
{
    const char *mode = getenv("PYTHONDEVMODE"), *allocator = getenv("PYTHONMALLOC");
    return (mode != NULL && mode[0] != '\0') ||
           (allocator != NULL && strstr(allocator, "debug") != NULL) || asked_for_by_option(argv);
}
