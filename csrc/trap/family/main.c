/*
 * fanstore-trap: runs a command whose path calls are caught by seccomp and answered as the preload
 * library would, for programs that no library can enter. It has that library's code inside.
 *
 *     fanstore-trap SPEAKER PRELOAD COMMAND...      SPEAKER: who speaks on stderr
 *                                                   PRELOAD: the command's LD_PRELOAD
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../client/job/job.h"
#include "../../common/sys.h"
#include "family.h"

static char preload[8192];

/* Opens /dev/null under the numbers of closed streams, so that this process gets no descriptor of
 * its own there: the supervisor would close it with the command's streams. The command finds these
 * streams closed. */
static void fill_streams(void)
{
    int fd;
    do {
        fd = fan_sys_openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
    } while (fd >= 0 && fd < 3);
    if (fd >= 0)
        fan_sys_close(fd);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 125;
    if (getenv("LD_PRELOAD") != NULL) { /* a preloaded library wraps the same calls */
        unsetenv("LD_PRELOAD");
        FAN_SYS(execve, "/proc/self/exe", argv, environ);
        return 125;
    }
    if (fan_job.view_count == 0 || strlen(argv[2]) + sizeof("LD_PRELOAD=") > sizeof(preload)) {
        fprintf(stderr, "%s: error: --trap: there is no job\n", argv[1]);
        return 125;
    }
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%.*s", (int)strcspn(argv[2], ": "), argv[2]);
    fan_job.preload = preload;
    setenv("LD_PRELOAD", argv[2], 1);
    fill_streams();
    return fan_stand_in(argv + 3, argv[1]);
}
