/*
 * Replaces two functions of UCX; they are found by name because this library is loaded before MPICH
 * (fanstore/startup.py). MPICH publishes 4 KiB for the address of each node through PMI, and so
 * also sends the bytes behind the address in memory; only zeros make the lines shorter. Slurm's
 * pmi2 (22.05) takes no line of more than 1,024 bytes, so starts failed at random. Addresses that
 * these functions return have zeros behind them.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { PUBLISHED_BYTES = 4096 };

typedef signed char status; /* the size of ucs_status_t, a packed enum */
enum { NO_MEMORY = -4, UNSUPPORTED = -22 };

status ucp_worker_get_address(void *worker, void **address, size_t *bytes);
void ucp_worker_release_address(void *worker, void *address);

/* UCX's own address, in front of the padded copy of it. */
struct padded {
    void *real;
    char copy[];
};

static void *find(const char *name)
{
    void *library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    return library != NULL ? dlsym(library, name) : NULL;
}

status ucp_worker_get_address(void *worker, void **address, size_t *bytes)
{
    status (*get)(void *, void **, size_t *) = find("ucp_worker_get_address");
    void *real;
    if (get == NULL)
        return UNSUPPORTED;
    status rc = get(worker, &real, bytes);
    if (rc != 0)
        return rc;
    struct padded *padded = calloc(1, sizeof(*padded) + *bytes + PUBLISHED_BYTES);
    if (padded == NULL)
        return NO_MEMORY;
    padded->real = real;
    memcpy(padded->copy, real, *bytes);
    *address = padded->copy;
    return 0;
}

void ucp_worker_release_address(void *worker, void *address)
{
    void (*release)(void *, void *) = find("ucp_worker_release_address");
    struct padded *padded = (struct padded *)((char *)address - offsetof(struct padded, copy));
    if (release != NULL)
        release(worker, padded->real);
    free(padded);
}
