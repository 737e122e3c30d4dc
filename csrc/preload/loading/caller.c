#include "caller.h"

#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "../../common/sys.h"

/* A search for the file that contains the caller. */
struct search {
    uintptr_t address;
    char *path; /* has room for PATH_MAX bytes */
    bool found;
};

/* Returns 1, which ends the search, if this file contains the caller. (dladdr would go through all
 * of its symbols.) */
static int look_at(struct dl_phdr_info *info, size_t bytes, void *argument)
{
    struct search *search = argument;
    bool here = false;
    (void)bytes;
    for (unsigned i = 0; !here && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        here = segment->p_type == PT_LOAD &&
               search->address - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz;
    }
    size_t length = here ? strlen(info->dlpi_name) + 1 : 0;
    if (length == 0 || length > PATH_MAX)
        return here;
    memcpy(search->path, info->dlpi_name, length);
    search->found = true;
    return 1;
}

bool fan_caller_path(void *caller, char path[PATH_MAX])
{
    struct search search = {.address = (uintptr_t)caller, .path = path};
    dl_iterate_phdr(look_at, &search);
    if (!search.found || path[0] != '\0')
        return search.found;
    return fan_sys_readlink(AT_FDCWD, "/proc/self/exe", path, PATH_MAX) > 0;
}
