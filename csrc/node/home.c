#include "home.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../changes/draft.h"
#include "../changes/elsewhere.h"
#include "../format/cache_format.h"

int fan_home_init(struct fan_home *home, const char *job_segment)
{
    const char *slash = strrchr(job_segment, '/');
    *home = (struct fan_home){0};
    home->directory =
        slash != NULL ? strndup(job_segment, (size_t)(slash - job_segment)) : strdup(".");
    return home->directory != NULL ? 0 : -ENOMEM;
}

void fan_home_fini(struct fan_home *home)
{
    if (home->names.header != NULL)
        munmap(home->names.header, home->names.bytes);
    free(home->directory);
    *home = (struct fan_home){0};
}

static int open_in(const struct fan_home *home, const char *name, int flags)
{
    int directory = open(home->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = directory < 0 ? directory : openat(directory, name, flags | O_CLOEXEC);
    if (directory >= 0)
        close(directory);
    return fd;
}

bool fan_home_map(struct fan_home *home)
{
    struct stat st;
    if (home->names.header != NULL)
        return true;
    int fd = open_in(home, "names", O_RDWR);
    if (fd < 0)
        return false;
    bool sane = fstat(fd, &st) == 0 && st.st_size >= FAN_NAMES_HEADER_BYTES;
    size_t bytes = sane ? (size_t)st.st_size : 0;
    const int flags = MAP_SHARED | MAP_NORESERVE;
    void *at = sane ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0) : MAP_FAILED;
    close(fd);
    if (at == MAP_FAILED)
        return false;
    bool ours = fan_names_attach(&home->names, at, bytes) == 0;
    if (!ours)
        munmap(at, bytes);
    return ours;
}

static struct fan_names_path path_of(const struct fan_inquiry *asked)
{
    const struct fan_change *change = &asked->change;
    return (struct fan_names_path){change->mount, asked->text, change->path_bytes,
                                   asked->base_bytes};
}

static struct fan_names_path other_of(const struct fan_inquiry *asked)
{
    const struct fan_change *change = &asked->change;
    return (struct fan_names_path){change->mount, asked->text + change->path_bytes,
                                   change->other_bytes, asked->other_base_bytes};
}

int fan_home_look(struct fan_home *home, struct fan_inquiry *asked)
{
    char target[FAN_OUTPUT_PATH_MAX];
    struct fan_output_attr *attr = &asked->change.attr;
    const struct fan_names_path path = path_of(asked);
    bool follow = (asked->how & FAN_QUESTION_FOLLOW) != 0;
    if (asked->base_bytes > path.bytes || !fan_home_map(home))
        return FAN_NAMES_ASK;
    int rc = fan_names_look(&home->names, &path, follow, attr, target, sizeof(target));
    return rc == 0 && S_ISLNK(attr->mode) ? FAN_NAMES_ASK : rc;
}

/* The daemon sleeps on a pipe, and reads all that is there at once. */
static void wake(const struct fan_home *home)
{
    int pipe = open_in(home, "changes", O_WRONLY | O_NONBLOCK);
    if (pipe < 0)
        return;
    ssize_t written = write(pipe, "", 1);
    (void)written; /* where it is full the daemon is awake */
    close(pipe);
}

static struct fan_changer changer_of(const struct fan_home *home, const struct fan_change *change)
{
    return (struct fan_changer){.names = home->names,
                                .thread = (uint32_t)gettid(),
                                .rank = change->rank,
                                .pid = change->pid,
                                .hurried = true};
}

/* Whether what a rank wants to make has a number of its own. */
static bool is_numbered(const struct fan_change *change)
{
    bool makes = change->kind == FAN_CHANGE_CREATED || change->kind == FAN_CHANGE_MADE;
    return !makes || (change->object != 0 && fan_draft_rank(change->object) == change->rank);
}

int fan_home_change(struct fan_home *home, struct fan_inquiry *asked)
{
    struct fan_wish wish = {.change = asked->change,
                            .path = path_of(asked),
                            .other = other_of(asked),
                            .replace = (asked->how & FAN_QUESTION_REPLACE) != 0,
                            .directory = (asked->how & FAN_QUESTION_DIRECTORY) != 0};
    if (wish.path.base_bytes > wish.path.bytes || wish.other.base_bytes > wish.other.bytes ||
        wish.path.bytes >= FAN_NAMES_PATH_MAX || wish.other.bytes >= FAN_NAMES_PATH_MAX ||
        !is_numbered(&asked->change) || !fan_home_map(home))
        return FAN_NAMES_ASK;
    struct fan_changer changer = changer_of(home, &asked->change);
    int rc = fan_change_make(&changer, &wish);
    if (changer.wake)
        wake(home);
    asked->change = wish.change;
    return rc;
}

int fan_home_note(struct fan_home *home, struct fan_inquiry *asked, uint32_t by, int rc)
{
    if (!fan_home_map(home))
        return FAN_NAMES_ASK;
    struct fan_changer changer = changer_of(home, &asked->change);
    const char *other = asked->text + asked->change.path_bytes;
    if (rc == 0 && !fan_elsewhere_note(&changer, &asked->change, asked->text, other, by))
        rc = FAN_NAMES_ASK;
    if (changer.wake)
        wake(home);
    fan_elsewhere_end(&home->names);
    return rc;
}

void fan_home_end(struct fan_home *home)
{
    if (fan_home_map(home))
        fan_elsewhere_end(&home->names);
}
