#include "known.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "../machine/spelling.h"
#include "job.h"

static _Atomic(struct fan_names_header *) mapped;

static void *map(int fd, uint64_t bytes)
{
    long at = fan_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return fan_sys_failed(at) ? NULL : (void *)at;
}

static void *open_and_map(uint64_t *bytes)
{
    struct stat st;
    int job = fan_sys_openat(AT_FDCWD, fan_job.directory.text, O_PATH | O_CLOEXEC, 0);
    if (job < 0)
        return NULL;
    int fd = fan_sys_openat(job, "names", O_RDWR | O_CLOEXEC, 0);
    fan_sys_close(job);
    if (fd < 0)
        return NULL;
    bool sane = FAN_SYS(fstat, fd, &st) == 0 && st.st_size >= FAN_NAMES_HEADER_BYTES;
    *bytes = sane ? (uint64_t)st.st_size : 0;
    void *at = sane ? map(fd, *bytes) : NULL;
    fan_sys_close(fd);
    return at;
}

static __attribute__((noinline)) struct fan_names_header *attach(void)
{
    uint64_t bytes;
    void *at = open_and_map(&bytes);
    struct fan_names found;
    struct fan_names_header *expected = NULL;
    if (at == NULL)
        return NULL;
    if (fan_names_attach(&found, at, bytes) == 0 &&
        atomic_compare_exchange_strong(&mapped, &expected, found.header))
        return found.header;
    fan_sys_munmap(at, bytes);
    return expected;
}

bool fan_job_names(struct fan_names *names)
{
    struct fan_names_header *header = atomic_load_explicit(&mapped, memory_order_acquire);
    if (header == NULL)
        header = attach();
    if (header == NULL)
        return false;
    *names = (struct fan_names){header, header->segment_bytes};
    return true;
}

/* The length of a path without the slash at its end; 0 where it is not in normal form. */
static size_t normal_bytes(const char *path, size_t base_bytes, bool *slash)
{
    const char *at = path + base_bytes;
    while (*at == '/')
        at++;
    size_t bytes = 0;
    *slash = false;
    if (at - path > (ptrdiff_t)base_bytes + (base_bytes > 0))
        return 0;
    while (*at != '\0') {
        const char *end = fan_component_end(at);
        size_t length = (size_t)(end - at);
        if (length == 0 || length > FAN_NAME_MAX_BYTES || fan_is_dot(at, length) ||
            fan_is_dot_dot(at, length))
            return 0;
        bytes = (size_t)(end - path);
        *slash = *end == '/';
        at = *end == '/' ? end + 1 : end;
    }
    return bytes;
}

bool fan_output_path(const struct fan_view *view, const char *path, size_t base_bytes,
                     struct fan_names_path *named, bool *slash)
{
    size_t bytes = normal_bytes(path, base_bytes, slash);
    *named = (struct fan_names_path){fan_output_view(view), path, bytes, base_bytes};
    return bytes > 0 && bytes < FAN_OUTPUT_PATH_MAX;
}

fan_far *fan_known_far;

/* What another rank knows of the name, whose home it is. A change that was announced on this node
 * may be on its way there: then the daemon is asked, which waits for it. */
static int known_elsewhere(const struct fan_names *names, const struct fan_names_path *named,
                           bool follow, struct fan_output_attr *attr)
{
    const char *slash = memrchr(named->text, '/', named->bytes);
    size_t directory = slash != NULL ? (size_t)(slash - named->text) : 0;
    uint32_t home = fan_names_home(names, named->mount, named->text, directory);
    if (home == names->header->rank || fan_known_far == NULL || !fan_names_kept(names) ||
        !fan_names_settled(names))
        return FAN_NAMES_ASK;
    return fan_known_far(home, named, follow, attr);
}

int fan_output_known(const struct fan_view *view, const char *path, size_t base_bytes, bool follow,
                     struct fan_output_answer *answer, char text[FAN_OUTPUT_PATH_MAX])
{
    struct fan_names names;
    bool slash;
    struct fan_names_path named;
    if (!fan_output_path(view, path, base_bytes, &named, &slash) || !fan_job_names(&names))
        return FAN_NAMES_ASK;
    /* The path that lies there is needed until the answer is certain: a target goes behind it. */
    size_t used = text == path ? strlen(path) + 1 : 0;
    answer->where = FAN_OUTPUT_HERE;
    int rc = fan_names_look(&names, &named, follow || slash, &answer->attr, text + used,
                            FAN_OUTPUT_PATH_MAX - used);
    if (rc == FAN_NAMES_ASK)
        rc = known_elsewhere(&names, &named, follow || slash, &answer->attr);
    if (rc == 0 && slash && !S_ISDIR(answer->attr.mode))
        return -ENOTDIR;
    if (rc == 0 && slash && used == 0) /* a directory's path has to lose its slash */
        return FAN_NAMES_ASK;
    if (rc == 0 && slash)
        text[named.bytes] = '\0';
    if (rc == 0 && used > 0 && S_ISLNK(answer->attr.mode))
        memmove(text, text + used, strlen(text + used) + 1);
    return rc;
}

int fan_output_known_list(const struct fan_view *view, const char *path,
                          struct fan_output_listing *listing)
{
    struct fan_names names;
    struct fan_names_path named = {fan_output_view(view), path, strlen(path), 0};
    if (!fan_job_names(&names))
        return FAN_NAMES_ASK;
    int64_t room = fan_names_list_bytes(&names, &named);
    if (room < 0)
        return FAN_NAMES_ASK;
    room = (room + 4095) / 4096 * 4096;
    long at = fan_sys_mmap(NULL, (size_t)room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                           -1, 0);
    if (fan_sys_failed(at))
        return FAN_NAMES_ASK;
    int64_t bytes = fan_names_list(&names, &named, (char *)at, (size_t)room);
    *listing = (struct fan_output_listing){(char *)at, bytes > 0 ? (size_t)bytes : 0, (size_t)room};
    if (bytes <= 0)
        fan_output_list_end(listing);
    return bytes >= 0 ? 0 : FAN_NAMES_ASK;
}
