/* Opens liblz4 and libzstd when the program starts, so that their headers need not be installed. */
#pragma once

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns a function of a library. Ends the process with exit code 3 if it is missing. */
static inline void *library_function(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW);
    void *function = handle != NULL ? dlsym(handle, name) : NULL;
    if (function == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    return function;
}
