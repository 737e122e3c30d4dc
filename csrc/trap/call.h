/*
 * A caught system call, and its answer. A handler returns -errno or the call's value;
 * FAN_CALL_CONTINUE: let the kernel do the call; FAN_CALL_DONE: the call has been answered already.
 */
#ifndef FAN_TRAP_CALL_H
#define FAN_TRAP_CALL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../client/paths/resolve.h"

struct fan_call {
    int listener;
    uint64_t id;
    pid_t tid;
    int number;
    uint64_t args[6];
};

#define FAN_CALL_CONTINUE LONG_MIN
#define FAN_CALL_DONE (LONG_MIN + 1)

/* A call's path that leads into a mount. */
struct fan_spot {
    char given[PATH_MAX]; /* as the program wrote it */
    char path[PATH_MAX];  /* from the root, as far as /proc and the working directory go */
    struct fan_target target;
};

/* How to treat the last component and an empty path. */
enum fan_spot_how {
    FAN_SPOT_FOLLOW = 1, /* a link at the end is followed */
    FAN_SPOT_EMPTY = 2,  /* "" (or NULL) is the descriptor itself */
};

/* Whether the path at address `at`, relative to `dirfd`, leads into a mount. true: fills `spot`,
 * and the thread asks the node daemon on behalf of the calling process from now on. false: let the
 * kernel do the call; spot->path is set, or "" if it cannot be found out. */
bool fan_call_find(const struct fan_call *call, int dirfd, uint64_t at, unsigned how,
                    struct fan_spot *spot);

/* Makes this thread ask the node daemon on behalf of the calling process. */
void fan_call_ask_for(const struct fan_call *call);

/* Whether the process still waits for this call. If so, data read from its memory was its own. */
bool fan_call_valid(const struct fan_call *call);

/* Gives this thread the umask of the process until fan_call_end. */
void fan_call_umask(const struct fan_call *call);

/* Call it if threads cannot have a umask each: calls that need one then wait for each other. */
void fan_call_share_umask(void);

/* Gives a descriptor of this process to the calling one, and closes `fd`. Returns FAN_CALL_DONE,
 * the descriptor's number there, or -errno. */
long fan_call_give(const struct fan_call *call, int fd, bool cloexec);

/* Ends a call on this thread: resets the umask, releases the umask lock if the thread holds it, and
 * forgets the process for which the thread asked the daemon. */
void fan_call_end(void);

/* Returns -errno for a result of -1, else the result. */
long fan_call_result(long rc);

#endif
