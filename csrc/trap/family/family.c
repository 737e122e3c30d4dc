#include "family.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "../../client/job/jobsocket.h"
#include "../../common/sys.h"

struct fan_witness *fan_witness;

void fan_news_tell(int pipe, enum fan_news_kind kind, int value, const char *step)
{
    struct fan_news news = {.kind = (int32_t)kind, .value = value};
    snprintf(news.step, sizeof(news.step), "%s", step);
    FAN_SYS(write, pipe, &news, sizeof(news)); /* small enough for one write */
}

enum { STEP_NS = 200000 };
#define LIMIT_NS 10000000000 /* a process on a dead file system may not end */

static void kill_children(void)
{
    FILE *stream = fopen("/proc/thread-self/children", "re");
    for (int pid; stream != NULL && fscanf(stream, "%d", &pid) == 1;)
        kill(pid, SIGKILL);
    if (stream != NULL)
        fclose(stream);
}

/* Works in rounds: the children of a killed process become this process's, because it is a
 * subreaper, and are killed in the next round. */
void fan_family_end(void)
{
    const struct timespec step = {.tv_nsec = STEP_NS};
    int64_t limit_ns = fan_clock_ns() + LIMIT_NS;
    pid_t ended;
    for (;;) {
        kill_children();
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
            continue;
        if (ended < 0 || fan_clock_ns() > limit_ns)
            return;
        FAN_SYS(nanosleep, &step, NULL);
    }
}
