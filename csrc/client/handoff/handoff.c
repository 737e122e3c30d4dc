#include "handoff.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "../../common/number.h"
#include "../../common/sys.h"
#include "../../pack/codec.h"
#include "../content/content_io.h"
#include "../files/arena.h"
#include "../files/filetable.h"
#include "../files/overlay.h"
#include "../machine/vfork.h"
#include "../outputs/outputs.h"
#include "../paths/linked.h"

/* A text that is being written. full stays set once it is. */
struct writer {
    char *at, *end;
    bool full;
    int arenas[FAN_ARENAS_MAX];
    unsigned arena_count;
    bool first;
    bool counted;
};

static void put_char(struct writer *writer, char c)
{
    if (writer->at + 1 < writer->end)
        *writer->at++ = c;
    else
        writer->full = true;
}

static void put_number(struct writer *writer, unsigned number)
{
    char digits[10];
    const char *end = fan_put_number(digits, number);
    for (const char *at = digits; at < end; at++)
        put_char(writer, *at);
}

static int arena_index(const struct writer *writer, int fd)
{
    for (unsigned i = 0; i < writer->arena_count; i++) {
        if (writer->arenas[i] == fd)
            return (int)i;
    }
    return -1;
}

/* Finds the arena and slot of a descriptor that survives exec. Returns the arena's descriptor, or
 * -1. */
static int survivor(int fd, const struct fan_file *file, uint32_t *slot)
{
    int flags = fan_sys_fcntl(fd, F_GETFD, 0);
    if (flags < 0 || (flags & FD_CLOEXEC) != 0)
        return -1;
    return fan_arena_locate(file->slot, slot);
}

static void note_arena(int fd, struct fan_file *file, void *context)
{
    struct writer *writer = context;
    uint32_t slot;
    int arena = survivor(fd, file, &slot);
    if (arena < 0 || arena_index(writer, arena) >= 0)
        return;
    if (writer->arena_count > 0)
        put_char(writer, ',');
    writer->arenas[writer->arena_count++] = arena;
    put_number(writer, (unsigned)arena);
    fan_sys_fcntl(arena, F_SETFD, 0);
    int store = fan_arena_store(file->slot, false);
    if (store < 0)
        return;
    put_char(writer, ':');
    put_number(writer, (unsigned)store);
    fan_sys_fcntl(store, F_SETFD, 0);
}

static void note_file(int fd, struct fan_file *file, void *context)
{
    struct writer *writer = context;
    uint32_t slot;
    int arena = survivor(fd, file, &slot);
    if (arena < 0)
        return;
    if (!writer->first)
        put_char(writer, ',');
    writer->first = false;
    if (writer->counted)
        atomic_fetch_add(&file->slot->refs, 1);
    put_number(writer, (unsigned)fd);
    put_char(writer, '.');
    put_number(writer, (unsigned)arena_index(writer, arena));
    put_char(writer, '.');
    put_number(writer, slot);
}

static void measure_file(int fd, struct fan_file *file, void *context)
{
    enum { ENTRY_BYTES = sizeof("1048576.64.262144,"), ARENA_BYTES = sizeof("1048576:1048576,") };
    struct fan_handoff_need *need = context;
    uint32_t slot;
    if (survivor(fd, file, &slot) < 0)
        return;
    if (need->bytes == 0)
        need->bytes = FAN_ARENAS_MAX * ARENA_BYTES;
    need->bytes += ENTRY_BYTES;
    need->placeholders = need->placeholders || file->kind == FAN_FILE_REGULAR;
}

void fan_handoff_measure(struct fan_handoff_need *need)
{
    *need = (struct fan_handoff_need){0};
    fan_file_each(measure_file, need);
}

ssize_t fan_handoff_export(char *text, size_t capacity, bool counted)
{
    struct writer writer = {.at = text, .end = text + capacity, .first = true, .counted = counted};
    fan_file_each(note_arena, &writer);
    if (writer.arena_count == 0)
        return 0;
    put_char(&writer, ';');
    fan_file_each(note_file, &writer);
    if (writer.full) {
        fan_handoff_cancel(counted);
        return -E2BIG;
    }
    *writer.at = '\0';
    return writer.at - text;
}

static void close_on_exec(int fd, struct fan_file *file, void *context)
{
    uint32_t slot;
    int arena = fan_arena_locate(file->slot, &slot);
    int store = fan_arena_store(file->slot, false);
    if (arena >= 0)
        fan_sys_fcntl(arena, F_SETFD, FD_CLOEXEC);
    if (store >= 0)
        fan_sys_fcntl(store, F_SETFD, FD_CLOEXEC);
    if (*(bool *)context && survivor(fd, file, &slot) >= 0)
        atomic_fetch_sub(&file->slot->refs, 1);
}

void fan_handoff_done(void)
{
    bool counted = false;
    fan_file_each(close_on_exec, &counted);
}

void fan_handoff_cancel(bool counted)
{
    fan_file_each(close_on_exec, &counted);
}

/* The search for the next placeholder that exec keeps, in the order of numbers. */
struct search {
    int after, fd;
    struct fan_file *file;
};

static void find_next(int fd, struct fan_file *file, void *context)
{
    struct search *search = context;
    int flags = fan_sys_fcntl(fd, F_GETFD, 0);
    bool kept = flags >= 0 && (flags & FD_CLOEXEC) == 0 && file->kind == FAN_FILE_REGULAR;
    if (kept && fd > search->after && (search->fd < 0 || fd < search->fd)) {
        search->fd = fd;
        search->file = file;
    }
}

/* The real file that replaces a file's placeholders. */
struct substitute {
    struct fan_file *file;
    int real;
};

static void put_real(int fd, struct fan_file *file, void *context)
{
    const struct substitute *substitute = context;
    if (file != substitute->file)
        return;
    int flags = fan_sys_fcntl(fd, F_GETFD, 0);
    int keep = flags >= 0 && (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0;
    if (FAN_SYS(dup3, substitute->real, fd, keep) >= 0)
        fan_file_remove(fd);
}

/* Replaces all descriptors of one file, also those that exec closes, because it may fail. */
static void make_one_real(struct fan_file *file)
{
    unsigned own = fan_in_vfork_child() ? fan_overlay_references(file) : atomic_load(&file->refs);
    bool alone = atomic_load(&file->slot->refs) == own;
    int real = alone ? fan_move_alone(file) : fan_move_make(file);
    struct substitute substitute = {file, real};
    if (real < 0)
        return;
    atomic_fetch_add(&file->slot->refs, 1); /* keeps the slot, whose last descriptor is replaced */
    atomic_fetch_add(&file->refs, 1);
    fan_file_each(put_real, &substitute);
    fan_file_put(file);
    fan_sys_close(real);
}

void fan_handoff_make_real(void)
{
    struct search search = {.after = -1};
    for (;;) {
        search.fd = -1;
        fan_file_each(find_next, &search);
        if (search.fd < 0)
            return;
        make_one_real(search.file);
        search.after = search.fd;
    }
}

/* Reads a number and the one character behind it. Returns -1 if there is none. */
static int read_number(const char **text, char *after)
{
    int number = (int)fan_take_number(text, 1 << 24);
    *after = **text;
    *text += **text != '\0';
    return number;
}

/* Returns whether the real file behind a descriptor is in the output tree. */
static bool is_output(int fd)
{
    char path[PATH_MAX];
    const char *rest;
    if (fan_fd_path_real(fd, path, sizeof(path)) <= 0)
        return false;
    return fan_outputs_match(path, &rest) != NULL;
}

/* Returns whether a descriptor may be the one that was passed on: another file may have its number
 * since. */
static bool may_be(int fd, const struct fan_slot *slot)
{
    const uint32_t kind = slot->kind;
    int flags = fan_sys_fcntl(fd, F_GETFL, 0);
    if (flags < 0)
        return false;
    if (kind == FAN_FILE_OUTPUT)
        return is_output(fd);
    if (kind == FAN_FILE_COPY)
        return slot->view < fan_job.view_count &&
               fan_is_copy_of(fd, &fan_job.views[slot->view], slot->id);
    bool real = kind == FAN_FILE_DIRECTORY || kind == FAN_FILE_NEAR || kind == FAN_FILE_OUTDIR;
    return real || (flags & O_PATH) != 0;
}

static void adopt_one(int fd, struct fan_slot *arena, int slot)
{
    if (arena == NULL || slot < 0 || slot >= FAN_ARENA_SLOTS || fd < 0 ||
        !may_be(fd, &arena[slot]))
        return;
    struct fan_file *file = fan_file_adopt(&arena[slot]);
    if (file == NULL)
        return;
    if (file->kind == FAN_FILE_REGULAR && fan_content_open(file) != 0) {
        fan_file_put(file);
        return;
    }
    fan_file_install(fd, file);
}

static void adopt(const char *text)
{
    struct fan_slot *arenas[FAN_ARENAS_MAX];
    int count = 0;
    char after = ',';
    while (after == ',' && count < FAN_ARENAS_MAX) {
        int fd = read_number(&text, &after);
        int store = after == ':' ? read_number(&text, &after) : -1;
        arenas[count++] = fd >= 0 ? fan_arena_adopt(fd, store) : NULL;
    }
    if (after != ';')
        return;
    for (after = ','; after == ',';) {
        int fd = read_number(&text, &after);
        int arena = after == '.' ? read_number(&text, &after) : -1;
        int slot = after == '.' ? read_number(&text, &after) : -1;
        if (arena >= 0 && arena < count)
            adopt_one(fd, arenas[arena], slot);
    }
    fan_output_adopted();
}

void fan_handoff_adopt(const char *text)
{
    fan_codec_defer(true); /* libc is not initialised: this library comes before all others */
    adopt(text);
    fan_codec_defer(false);
}
