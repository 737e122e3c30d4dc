/*
 * Finds the file that a caught system call means, and answers the call. A handler returns -errno or
 * the call's value; FAN_CALL_CONTINUE to let the kernel do the call; or FAN_CALL_DONE if the call
 * has been answered already.
 */
#pragma once

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
    char path[PATH_MAX];  /* from the root, after following /proc and the working directory */
    struct fan_target target;
};

/* How to treat the last component and an empty path. */
enum fan_spot_how {
    FAN_SPOT_FOLLOW = 1, /* follow a link at the end */
    FAN_SPOT_EMPTY = 2,  /* "" (or NULL) means the descriptor itself */
};

/* Returns whether the path at address `at`, relative to `dirfd`, leads into a mount. If it does,
 * fills `spot`, and this thread asks the node daemon on behalf of the calling process from now on.
 * If not, the kernel must do the call; spot->path is set, or is "" if the path cannot be found
 * out. */
bool fan_call_find(const struct fan_call *call, int dirfd, uint64_t at, unsigned how,
                    struct fan_spot *spot);

/* Makes this thread ask the node daemon on behalf of the calling process. */
void fan_call_ask_for(const struct fan_call *call);

/* Returns whether the process still waits for this call. If so, data that was read from its memory
 * belonged to it. */
bool fan_call_valid(const struct fan_call *call);

/* Gives this thread the umask of the process until fan_call_end. */
void fan_call_umask(const struct fan_call *call);

/* Makes calls that need a umask wait for each other. Call it if the threads cannot each have a
 * umask. */
void fan_call_share_umask(void);

/* Gives a descriptor of this process to the calling one, and closes `fd`. Returns FAN_CALL_DONE,
 * the descriptor's number there, or -errno. */
long fan_call_give(const struct fan_call *call, int fd, bool cloexec);

/* Ends a call on this thread: resets the umask, releases the umask lock if the thread holds it, and
 * forgets the process for which the thread asked the daemon. */
void fan_call_end(void);

/* Returns -errno for a result of -1, otherwise the result. */
long fan_call_result(long rc);
