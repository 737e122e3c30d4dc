#include "mapped.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "copyname.h"
#include "mapping.h"

enum { LINE_BYTES = 4200 }; /* a line of /proc/self/maps with a path of PATH_MAX */

/* A line of it: "first-end rwxp offset device inode path". */
struct line {
    uintptr_t first, end;
    uint64_t offset;
    const char *access;
    const char *path; /* "" where nothing is mapped */
};

static uint64_t take_number(const char **text, unsigned base)
{
    uint64_t value = 0;
    for (;; (*text)++) {
        const unsigned c = (unsigned char)**text;
        unsigned digit = c >= 'a' && c <= 'f' ? c - 'a' + 10 : c - '0';
        if (digit >= base)
            return value;
        value = value * base + digit;
    }
}

static void parse(const char *text, struct line *line)
{
    line->first = take_number(&text, 16);
    text += *text == '-';
    line->end = take_number(&text, 16);
    text += *text == ' ';
    line->access = text;
    const char *offset = strchr(text, ' '), *path = strchr(text, '/');
    offset = offset != NULL ? offset + 1 : "";
    line->offset = take_number(&offset, 16);
    line->path = path != NULL ? path : "";
}

/* The record whose stored bytes a place in a pack belongs to. 0, the root: none. */
static uint64_t record_at(const struct fan_dataset *dataset, uint32_t pack, uint64_t at)
{
    for (uint64_t id = 1; id < dataset->index.header->record_count; id++) {
        const struct fan_record *record = &dataset->index.records[id];
        if (record->pack == pack && S_ISREG(record->mode) && record->offset <= at &&
            at - record->offset < record->stored_size && record->codec == FAN_CODEC_STORE)
            return id;
    }
    return 0;
}

static bool is_pack(const struct line *line, struct fan_view *view, uint64_t at,
                    struct fan_mapped *found)
{
    static const char name[] = "/pack-";
    const char *path = line->path;
    struct fan_dataset *dataset = fan_view_dataset(view);
    if (dataset == NULL || strncmp(path, view->staged_dir.text, view->staged_dir.bytes) != 0)
        return false;
    path += view->staged_dir.bytes;
    if (strncmp(path, name, sizeof(name) - 1) != 0)
        return false;
    path += sizeof(name) - 1;
    uint64_t id = record_at(dataset, (uint32_t)take_number(&path, 10), line->offset + at);
    found->view = view;
    found->id = id;
    if (id != 0)
        found->offset = (int64_t)(line->offset + at - dataset->index.records[id].offset);
    return id != 0;
}

static bool is_copy(const struct line *line, uint64_t at, struct fan_mapped *found)
{
    struct fan_copy_name copy;
    if (!fan_copy_name_of_link(line->path, FAN_COPY_MAPPED, &copy))
        return false;
    found->view = copy.view;
    found->id = copy.id;
    found->offset = (int64_t)(copy.detail + line->offset + at);
    return true;
}

static bool identify(const struct line *line, uintptr_t address, struct fan_mapped *found)
{
    uint64_t at = address - line->first;
    bool ours = is_copy(line, at, found);
    for (unsigned i = 0; i < fan_job.view_count && !ours; i++)
        ours = is_pack(line, &fan_job.views[i], at, found);
    found->prot = (line->access[0] == 'r' ? PROT_READ : 0) |
                  (line->access[1] == 'w' ? PROT_WRITE : 0) |
                  (line->access[2] == 'x' ? PROT_EXEC : 0);
    found->shared = line->access[3] == 's';
    return ours;
}

/* Looks at each whole line of the text for the one that `address` lies in. `used`: the bytes of the
 * lines before it. */
static bool look(char *text, uintptr_t address, size_t *used, struct line *line)
{
    char *start = text;
    for (char *end; (end = strchr(start, '\n')) != NULL; start = end + 1) {
        *end = '\0';
        parse(start, line);
        if (line->first <= address && address < line->end)
            return true;
    }
    *used = (size_t)(start - text);
    return false;
}

/* The kernel's line about an address; `text` is where its words lie. */
static bool find_line(uintptr_t address, char text[LINE_BYTES], struct line *line)
{
    size_t have = 0, used = 0;
    bool seen = false;
    int fd = fan_sys_openat(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    while (fd >= 0 && !seen) {
        long got = FAN_SYS(read, fd, text + have, LINE_BYTES - 1 - have);
        if (got <= 0)
            break;
        have += (size_t)got;
        text[have] = '\0';
        seen = look(text, address, &used, line);
        if (!seen) {
            have -= used;
            memmove(text, text + used, have);
        }
    }
    if (fd >= 0)
        fan_sys_close(fd);
    return seen;
}

bool fan_mapped_at(const void *address, struct fan_mapped *found)
{
    char text[LINE_BYTES];
    struct line line;
    return fan_mmap_was_made() && find_line((uintptr_t)address, text, &line) &&
           identify(&line, (uintptr_t)address, found);
}

size_t fan_mapped_as_one(const void *address)
{
    char text[LINE_BYTES];
    struct line line;
    return find_line((uintptr_t)address, text, &line) ? line.end - (uintptr_t)address : 0;
}
