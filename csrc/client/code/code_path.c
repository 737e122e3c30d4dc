/* Converts between paths in mounts and the places of their real files (code.h). */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "../../common/number.h"
#include "../../common/sys.h"
#include "../machine/spelling.h"
#include "code.h"

static const char folder[] = FAN_CODE_FOLDER;

/* The least room for a path behind the job directory. */
enum { ROOM_MIN = 64 };

/* Writes the path of a mount's folder. Returns its length, or -ENAMETOOLONG. */
static int64_t put_root(const struct fan_view *view, char *to, size_t capacity)
{
    const struct fan_text *job = &fan_job.directory;
    if (job->bytes + ROOM_MIN > capacity)
        return -ENAMETOOLONG;
    memcpy(to, job->text, job->bytes);
    memcpy(to + job->bytes, folder, sizeof(folder) - 1);
    char *end = to + job->bytes + sizeof(folder) - 1;
    end = fan_put_number(end, (unsigned)(view - fan_job.views));
    *end = '\0';
    return end - to;
}

int64_t fan_code_place(const struct fan_view *view, const char *rest, char *to, size_t capacity)
{
    int64_t root = put_root(view, to, capacity);
    if (root < 0)
        return root;
    size_t length = (size_t)root;
    bool above;
    if (!fan_append_normal(rest, to, &length, capacity, &above))
        return -ENAMETOOLONG;
    return above ? -EXDEV : (int64_t)length;
}

int64_t fan_code_place_of(const char *path, char *to, size_t capacity)
{
    const char *rest;
    const struct fan_view *view = fan_match_prefix(path, &rest);
    return view != NULL ? fan_code_place(view, rest, to, capacity) : -EXDEV;
}

int64_t fan_code_shown(const char *text, char *to, size_t capacity)
{
    size_t length = 0;
    for (const char *at = text; *at != '\0';) {
        const char *rest = at;
        const struct fan_view *view = *at == '/' ? fan_code_begins(at, &rest) : NULL;
        const char *piece = view != NULL ? view->prefix.text : at;
        size_t bytes = view != NULL ? view->prefix.bytes : 1;
        if (length + bytes + 1 > capacity)
            return -ERANGE;
        memcpy(to + length, piece, bytes);
        length += bytes;
        at = view != NULL ? rest : at + 1;
    }
    to[length] = '\0';
    return (int64_t)length;
}

/* A kept text. The pages for these texts hold nothing else. */
struct kept {
    struct kept *next;
    char text[];
};

static _Atomic(struct kept *) kept_texts;

static const char *find_kept(const char *text)
{
    struct kept *at = atomic_load_explicit(&kept_texts, memory_order_acquire);
    while (at != NULL && strcmp(at->text, text) != 0)
        at = at->next;
    return at != NULL ? at->text : NULL;
}

/* Takes room in a block that all threads fill. If it does not suffice, makes a new block and leaves
 * the rest of the old one unused. */
static void *take_room(size_t bytes)
{
    enum { BLOCK = 1 << 16 };
    static _Atomic(char *) block; /* its first word says how much is taken */
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > BLOCK / 4)
        return NULL;
    for (;;) {
        char *here = atomic_load_explicit(&block, memory_order_acquire);
        size_t at = here != NULL
                        ? atomic_fetch_add((_Atomic size_t *)(void *)here, bytes) : BLOCK;
        if (at <= BLOCK - bytes)
            return here + at;
        char *fresh = fan_sys_memory(BLOCK);
        if (fresh == NULL)
            return NULL;
        atomic_init((_Atomic size_t *)(void *)fresh, sizeof(size_t));
        if (!atomic_compare_exchange_strong(&block, &here, fresh))
            fan_sys_munmap(fresh, BLOCK);
    }
}

const char *fan_code_keep(const char *text)
{
    const char *found = find_kept(text);
    size_t bytes = strlen(text) + 1;
    struct kept *made = found == NULL ? take_room(sizeof(*made) + bytes) : NULL;
    if (made == NULL)
        return found;
    memcpy(made->text, text, bytes);
    made->next = atomic_load_explicit(&kept_texts, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&kept_texts, &made->next, made,
                                                  memory_order_release, memory_order_relaxed)) {
    }
    return made->text;
}
