#include "family.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../../common/sys.h"
#include "../handlers.h"

/* Defined as in newer headers. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#    define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#    define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

/* A call may take long (a remote file), so a new thread is started whenever no thread is
 * waiting. */
enum { THREADS_FIRST = 2, THREADS_MAX = 256, STACK_BYTES = 1 << 20 };

static int listener;
static struct seccomp_notif_sizes sizes;
static atomic_int waiting, threads;

static void *run(void *unused);

static int start_thread(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    if (atomic_fetch_add(&threads, 1) >= THREADS_MAX) {
        atomic_fetch_sub(&threads, 1);
        return -EAGAIN;
    }
    atomic_fetch_add(&waiting, 1);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int rc = pthread_create(&thread, &attributes, run, NULL);
    pthread_attr_destroy(&attributes);
    if (rc != 0) {
        atomic_fetch_sub(&waiting, 1);
        atomic_fetch_sub(&threads, 1);
    }
    return -rc;
}

static void answer(const struct fan_call *call, struct seccomp_notif_resp *response)
{
    long rc = fan_handle(call);
    if (rc == FAN_CALL_DONE)
        return;
    memset(response, 0, sizes.seccomp_notif_resp);
    response->id = call->id;
    if (rc == FAN_CALL_CONTINUE)
        response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else if (rc < 0)
        response->error = (int)rc;
    else
        response->val = rc;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, response);
}

static bool take(struct seccomp_notif *notice, struct fan_call *call)
{
    memset(notice, 0, sizes.seccomp_notif);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, notice) != 0)
        return false;
    *call = (struct fan_call){.listener = listener,
                              .id = notice->id,
                              .tid = (pid_t)notice->pid,
                              .number = notice->data.nr};
    for (int i = 0; i < 6; i++)
        call->args[i] = notice->data.args[i];
    return true;
}

static void *run(void *unused)
{
    struct seccomp_notif *notice = calloc(1, sizes.seccomp_notif);
    struct seccomp_notif_resp *response = calloc(1, sizes.seccomp_notif_resp);
    struct fan_call call;
    (void)unused;
    bool usable = notice != NULL && response != NULL;
    unshare(CLONE_FS); /* its own umask; containers may forbid it (fan_serve) */
    while (usable) {
        if (!take(notice, &call)) {
            if (errno == EINTR || errno == ENOENT) /* the process has ended meanwhile */
                continue;
            break;
        }
        if (atomic_fetch_sub(&waiting, 1) == 1)
            start_thread();
        answer(&call, response);
        atomic_fetch_add(&waiting, 1);
    }
    free(notice);
    free(response);
    return NULL;
}

int fan_serve(int from)
{
    listener = from;
    long rc = FAN_SYS(seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes);
    if (rc < 0)
        return (int)rc;
    if (sizes.seccomp_notif < sizeof(struct seccomp_notif))
        sizes.seccomp_notif = sizeof(struct seccomp_notif);
    if (sizes.seccomp_notif_resp < sizeof(struct seccomp_notif_resp))
        sizes.seccomp_notif_resp = sizeof(struct seccomp_notif_resp);
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    if (unshare(CLONE_FS) != 0)
        fan_call_share_umask();
    for (int i = 0; i < THREADS_FIRST; i++) {
        rc = start_thread();
        if (rc != 0 && i == 0)
            return (int)rc;
    }
    return 0;
}
