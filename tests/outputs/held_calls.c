/* A library to be preloaded: while $HELD/hold exists, a call that removes or renames waits just
 * before the kernel's call. It makes $HELD/waits, and goes on when $HELD/hold is gone, or after 60
 * seconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NEXT(NAME) ((__typeof__(&NAME))dlsym(RTLD_NEXT, #NAME))

static void wait_until_free(void)
{
    const char *held = getenv("HELD");
    char hold[4096], waits[4096];
    if (held == NULL)
        return;
    snprintf(hold, sizeof(hold), "%s/hold", held);
    snprintf(waits, sizeof(waits), "%s/waits", held);
    close(open(waits, O_CREAT | O_WRONLY, 0600));
    for (int i = 0; i < 60000 && access(hold, F_OK) == 0; i++)
        usleep(1000);
}

int unlinkat(int dirfd, const char *path, int flags)
{
    wait_until_free();
    return NEXT(unlinkat)(dirfd, path, flags);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    wait_until_free();
    return NEXT(renameat)(from_fd, from, to_fd, to);
}
