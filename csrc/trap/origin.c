#include "origin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../client/content/copyname.h"
#include "../client/machine/spelling.h"
#include "../client/paths/cwd.h"
#include "../client/paths/resolve.h"

char fan_origin_root[PATH_MAX];

void fan_origin_name(struct fan_view *view, uint64_t id, char name[FAN_COPY_NAME_BYTES])
{
    const struct fan_copy_name copy = {view, id, 0};
    fan_copy_name_put(&copy, name);
}

/* Returns the part of a link after the tree's root and a slash, or NULL. */
static const char *below_root(const char *link)
{
    size_t bytes = strlen(fan_origin_root);
    bool below = bytes > 0 && strncmp(link, fan_origin_root, bytes) == 0 && link[bytes] == '/';
    return below ? link + bytes + 1 : NULL;
}

/* Finds the record of a copy from its link in /proc. Returns false if the link is not a copy's. */
static bool find_record(const char *link, struct fan_view **view, uint64_t *id)
{
    struct fan_copy_name copy;
    const char *at = below_root(link);
    if (at != NULL ? !fan_copy_name_read(at, &copy) : !fan_copy_name_of_link(link, &copy))
        return false;
    *view = copy.view;
    *id = copy.id;
    return true;
}

static int shown_record(struct fan_view *view, uint64_t id, char to[PATH_MAX])
{
    struct fan_dataset *dataset = fan_view_dataset(view);
    return dataset != NULL ? (int)fan_full_path(view, dataset, id, to, PATH_MAX) : -EIO;
}

static int shown_tree(char to[PATH_MAX], const char *at)
{
    char *rest;
    unsigned long number = strtoul(at, &rest, 10);
    if (rest == at || number >= fan_job.view_count || (*rest != '/' && *rest != '\0'))
        return (int)strlen(to);
    const struct fan_text *prefix = &fan_job.views[number].prefix;
    char own[PATH_MAX];
    size_t left = strlen(rest);
    if (prefix->bytes + left >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(own, prefix->text, prefix->bytes);
    memcpy(own + prefix->bytes, rest, left + 1);
    memcpy(to, own, prefix->bytes + left + 1);
    return (int)(prefix->bytes + left);
}

int fan_origin_shown(char to[PATH_MAX], size_t length)
{
    struct fan_view *view;
    uint64_t id;
    if (find_record(to, &view, &id))
        return shown_record(view, id, to);
    const char *below = below_root(to);
    return below != NULL ? shown_tree(to, below) : (int)fan_unskeleton(to, length, PATH_MAX);
}

int fan_origin_shown_path(char to[PATH_MAX], size_t length)
{
    const char *below = below_root(to);
    return below != NULL ? shown_tree(to, below) : (int)length;
}

bool fan_origin_is_ours(const char *link)
{
    struct fan_view *view;
    uint64_t id;
    return find_record(link, &view, &id) || below_root(link) != NULL;
}

int fan_origin_tree(const struct fan_view *view, const char *relpath, char to[PATH_MAX])
{
    int length = snprintf(to, PATH_MAX, "%s/%d", fan_origin_root, (int)(view - fan_job.views));
    if (length >= PATH_MAX - 1)
        return -ENAMETOOLONG;
    return fan_join(to, PATH_MAX, to, (size_t)length, relpath) ? 0 : -ENAMETOOLONG;
}
