#include "outputs_seen.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/sys.h"

enum { SEEN_MAX = 4096 };

/* The last object under each place; older ones are shown with the numbers of their real file. */
static struct seen {
    uint64_t object, inode;
    dev_t device;
} seen[SEEN_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fan_seen_note(const struct fan_file *file)
{
    pthread_mutex_lock(&lock);
    seen[file->id % SEEN_MAX] =
        (struct seen){file->id, file->slot->inode, file->view->device};
    pthread_mutex_unlock(&lock);
}

/* The object whose file a link names; 0: none. */
static uint64_t object_of(const char *link)
{
    const struct fan_text *job = &fan_job.directory;
    static const char folder[] = "/objects/";
    if (strncmp(link, job->text, job->bytes) != 0 ||
        strncmp(link + job->bytes, folder, sizeof(folder) - 1) != 0)
        return 0;
    return strtoull(strrchr(link, '/') + 1, NULL, 16);
}

bool fan_seen_stat(pid_t tid, int fd, const char *link, struct stat *st)
{
    char path[48];
    uint64_t object = object_of(link);
    if (object == 0)
        return false;
    pthread_mutex_lock(&lock);
    struct seen found = seen[object % SEEN_MAX];
    pthread_mutex_unlock(&lock);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, fd);
    if (found.object != object || found.inode == 0 ||
        FAN_SYS(newfstatat, AT_FDCWD, path, st, 0) != 0)
        return false;
    st->st_dev = found.device;
    st->st_ino = found.inode;
    return true;
}
