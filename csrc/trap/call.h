/*
 * A caught system call, and what is answered. A handler says -errno or the call's value;
 * FAN_CALL_CONTINUE: the kernel is to do it; FAN_CALL_DONE: it has been answered already.
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

/* A path of a call that leads into a mount. */
struct fan_spot {
    char given[PATH_MAX]; /* as the program wrote it */
    char path[PATH_MAX];  /* from the root, as far as /proc and the working directory go */
    struct fan_target target;
};

/* How the last component and an empty path are taken. */
enum fan_spot_how {
    FAN_SPOT_FOLLOW = 1, /* a link at the end is followed */
    FAN_SPOT_EMPTY = 2,  /* "" (or NULL) is the descriptor itself */
};

/* Whether the path at `at`, from `dirfd`, leads into a mount; `spot` is filled then, and the thread
 * asks the node daemon for the process that called. false: the kernel's to do; the spot's path is
 * there, or "" where it cannot be told. */
bool fan_call_find(const struct fan_call *call, int dirfd, uint64_t at, unsigned how,
                    struct fan_spot *spot);

/* The thread asks the node daemon for the process that called. */
void fan_call_ask_for(const struct fan_call *call);

/* Whether the process still waits for this call: what was read of it was its own. */
bool fan_call_valid(const struct fan_call *call);

/* Makes this thread's umask the process's, until the call has been run. */
void fan_call_umask(const struct fan_call *call);

/* Threads could not be given a umask each: calls that need one wait for each other. */
void fan_call_share_umask(void);

/* Gives a descriptor of ours to the process, as the call's value. Returns DONE, the value, or
 * -errno. Closes `fd`. */
long fan_call_give(const struct fan_call *call, int fd, bool cloexec);

/* Gives back what this thread took for a call: the umask, and whom it asked the daemon for. */
void fan_call_end(void);

/* errno to -errno. */
long fan_call_result(long rc);

#endif
