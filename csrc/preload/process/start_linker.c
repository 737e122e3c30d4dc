#include "start_linker.h"

#include <string.h>

/* Returns whether an option of the dynamic linker takes an argument. */
static bool takes_word(const char *option)
{
    static const char *const known[] = {"--library-path", "--inhibit-rpath", "--audit", "--preload",
                                        "--argv0", "--glibc-hwcaps-prepend",
                                        "--glibc-hwcaps-mask"};
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(option, known[i]) == 0)
            return true;
    }
    return false;
}

bool fan_is_linker(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    return strcmp(name, "ld.so") == 0 ||
           (strncmp(name, "ld-", 3) == 0 && strstr(name, ".so") != NULL);
}

size_t fan_linker_program(char *const argv[])
{
    size_t at = argv != NULL && argv[0] != NULL ? 1 : 0;
    while (at > 0 && argv[at] != NULL && strncmp(argv[at], "--", 2) == 0)
        at += takes_word(argv[at]) && argv[at + 1] != NULL ? 2 : 1;
    return at > 0 && argv[at] != NULL ? at : 0;
}
