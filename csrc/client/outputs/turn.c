#include "turn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../changes/draft.h"
#include "../../changes/elsewhere.h"
#include "../../common/sys.h"
#include "../content/session.h"
#include "../job/ask.h"
#include "../job/job.h"
#include "../job/known.h"
#include "../machine/vfork.h"

/* Whether the daemon sees this process under the id that it has itself. */
static bool same_pid_space(const struct fan_names *names, uint32_t pid)
{
    static atomic_uint known;
    struct stat st;
    if (atomic_load(&known) == pid)
        return true;
    if (FAN_SYS(newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) != 0 ||
        st.st_ino != names->header->pid_space)
        return false;
    atomic_store(&known, pid);
    return true;
}

/* The rank that is to make a change, if that is not this one. */
static bool is_elsewhere(const struct fan_names *names, const struct fan_wish *wish, uint32_t *home)
{
    if (wish->change.kind == FAN_CHANGE_ALTERED)
        return false;
    if (wish->change.kind == FAN_CHANGE_PUBLISHED)
        return fan_draft_is_elsewhere(names, wish->change.object);
    *home = fan_change_home(names, &wish->path);
    return *home != names->header->rank &&
           (wish->change.kind != FAN_CHANGE_MOVED || *home == fan_change_home(names, &wish->other));
}

bool fan_turn_begin(struct fan_turn *turn, const struct fan_wish *wish)
{
    struct fan_changer *changer = &turn->changer;
    uint32_t home;
    *turn = (struct fan_turn){0};
    if (fan_output_behalf != 0 || fan_in_vfork_child() || !fan_job_names(&changer->names))
        return false;
    changer->pid = (uint32_t)FAN_SYS(getpid);
    changer->thread = (uint32_t)FAN_SYS(gettid);
    changer->rank = changer->names.header->rank;
    if (changer->names.header->closed == FAN_NAMES_NEVER ||
        !same_pid_space(&changer->names, changer->pid))
        return false;
    if (is_elsewhere(&changer->names, wish, &home))
        turn->far.cache = fan_session();
    uint64_t all = ~UINT64_C(0);
    FAN_SYS(rt_sigprocmask, SIG_SETMASK, &all, &turn->signals, sizeof(all));
    return true;
}

/* Whether another rank is asked to make a change. */
static bool ask_elsewhere(struct fan_turn *turn, struct fan_wish *wish)
{
    struct fan_changer *changer = &turn->changer;
    struct fan_change *change = &wish->change;
    uint32_t home = 0;
    if (!is_elsewhere(&changer->names, wish, &home) || !fan_far_prepare(&turn->far, wish))
        return false;
    change->rank = changer->rank;
    change->pid = changer->pid;
    bool begun = fan_elsewhere_begin(changer, change, &home);
    if (begun) {
        fan_far_ask(&turn->far, home, change);
        fan_elsewhere_begun(changer);
    } else {
        fan_far_drop(&turn->far);
    }
    return begun;
}

int fan_turn_make(struct fan_turn *turn, struct fan_wish *wish)
{
    int rc = fan_change_make(&turn->changer, wish);
    if (rc == FAN_NAMES_ASK && turn->far.cache != NULL)
        ask_elsewhere(turn, wish);
    return rc;
}

/* Writes to the pipe on which the daemon sleeps; it reads all that is there at once. */
static void wake(void)
{
    int job = fan_sys_openat(AT_FDCWD, fan_job.directory.text, O_PATH | O_CLOEXEC, 0);
    int pipe = job < 0 ? job : fan_sys_openat(job, "changes", O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0);
    if (pipe >= 0) {
        FAN_SYS(write, pipe, "", 1);
        fan_sys_close(pipe);
    }
    if (job >= 0)
        fan_sys_close(job);
}

int fan_turn_end(struct fan_turn *turn, struct fan_wish *wish, int rc)
{
    if (turn->changer.wake)
        wake();
    FAN_SYS(rt_sigprocmask, SIG_SETMASK, &turn->signals, NULL, sizeof(turn->signals));
    return turn->far.question != NULL ? fan_far_wait(&turn->far, &wish->change) : rc;
}

int fan_turn(struct fan_wish *wish)
{
    struct fan_turn turn;
    if (!fan_turn_begin(&turn, wish))
        return FAN_NAMES_ASK;
    return fan_turn_end(&turn, wish, fan_turn_make(&turn, wish));
}
