/*
 * The processes of `fanstore-trap`:
 *
 *   the stand-in    the process that was started: passes signals on, and ends as the command ends
 *   the guard       the stand-in's child: if the supervisor is killed, ends the command and all its
 *                   descendants
 *   the supervisor  the guard's child and the command's parent: answers caught calls until no
 *                   process is left that could make one. It adopts daemonised processes, because it
 *                   must be an ancestor of every process whose memory it reads (Yama). If the guard
 *                   is killed, it ends the command and all its descendants.
 */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

/* The messages that the supervisor, or a command that could not be started, sends to the stand-in.
 */
enum fan_news_kind {
    FAN_NEWS_STARTED = 1, /* value: the command's process number */
    FAN_NEWS_STOPPED,     /* value: the signal */
    FAN_NEWS_ENDED,       /* value: its wait status */
    FAN_NEWS_LAST,        /* its wait status; the supervisor also ends */
    FAN_NEWS_NOT_EXEC,    /* value: exec's errno */
    FAN_NEWS_FAILED,      /* value: errno; step: what failed */
};

struct fan_news {
    int32_t kind;
    int32_t value;
    char step[56];
};

void fan_news_tell(int pipe, enum fan_news_kind kind, int value, const char *step);

/* The time at which the supervisor last got each signal. The supervisor is in the command's process
 * group, so the command got the same signals. Shared between the processes. */
struct fan_witness {
    _Atomic int64_t seen_ns[_NSIG];
    _Atomic pid_t supervisor;
};
extern struct fan_witness *fan_witness;

/* Stands in for the command `argv`. Returns the command's exit code, or 125 to 127; does not return
 * if a signal killed the command, but dies by the same signal. say: the name that begins messages
 * on stderr. */
int fan_stand_in(char **argv, const char *say);

/* Runs the guard's process; does not return. news: the pipe to the stand-in; mask: the command's
 * signal mask. */
void fan_guard(char **argv, int news, const sigset_t *mask) __attribute__((noreturn));

/* Runs the supervisor's process; does not return. guard: the socket over which the guard gets the
 * listener; the socket hangs up when the guard has ended. */
void fan_supervise(char **argv, int news, int guard, pid_t stand_in, const sigset_t *mask)
    __attribute__((noreturn));

/* Kills all descendants of this process, which is a subreaper, including daemonised and orphaned
 * ones. Works in rounds: processes that are forked meanwhile are found in the next. */
void fan_family_end(void);

/* Installs the seccomp filter that decides which calls are caught, for this process and all that it
 * starts. Returns the listener's descriptor, or -errno: -EBUSY: there is another listener already;
 * -EINVAL: the kernel has no such listeners. */
int fan_filter_install(void);

/* Starts the threads that receive the caught calls from `listener` and answer them. Returns 0 or
 * -errno. They end with the process. */
int fan_serve(int listener);

/* Sends `fd` over a socket of a pair. Does nothing if the other side has ended. */
void fan_send_fd(int socket, int fd);

/* Receives a descriptor. Returns -1 if the other side has ended. */
int fan_receive_fd(int socket);

/* Closes everything that belongs to the command: its streams, its working directory, and its
 * descriptors except those in `kept`, which ends with -1. */
void fan_let_go(const int *kept);
