/* Serves untrusted bytes as an index: looks up, opens, reads and lists everything that it names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../csrc/client/content/content_io.h"
#include "../../csrc/client/content/mapping.h"
#include "../../csrc/client/open/dirstream.h"
#include "../../csrc/client/open/open.h"
#include "../../csrc/client/open/stat.h"
#include "../../csrc/common/sys.h"
#include "fuzz.h"
#include "jobdir.h"
#include "tree.h"

enum { RECORDS_MAX = 256, ENTRIES_MAX = 4096, CAPACITY = 1 << 18 };

static void map_some(struct fan_file *file, int64_t end)
{
    long at = end > 0 ? fan_mmap(file, NULL, 5000, PROT_READ, MAP_PRIVATE, 0) : -EINVAL;
    if (fan_sys_failed(at))
        return;
    (void)*(volatile const char *)at;
    munmap((void *)at, 5000);
}

static void read_some(struct fan_file *file)
{
    char data[300];
    int64_t end = fan_content_seek(file, 0, SEEK_END);
    map_some(file, end);
    fan_content_pread(file, data, sizeof(data), 0);
    fan_content_pread(file, data, sizeof(data), end - 100);
    fan_content_pread(file, data, sizeof(data), 4000);
    fan_content_seek(file, 10, SEEK_SET);
    fan_content_read(file, data, sizeof(data));
}

static void use_file(struct fan_target *target)
{
    int fd = fan_open(target, O_RDONLY | O_CLOEXEC, 0);
    struct fan_file *file = fan_file_get(fd);
    if (fd < 0)
        return;
    if (file != NULL && file->kind == FAN_FILE_REGULAR)
        read_some(file);
    fan_file_remove(fd);
    close(fd);
}

static void list(const struct fan_target *target)
{
    int error = 0;
    struct fan_dirstream *stream = fan_dirstream_open(target, &error);
    if (stream == NULL)
        return;
    for (int i = 0; i < ENTRIES_MAX && fan_dirstream_read(stream, &error) != NULL; i++)
        ;
    fan_dirstream_close(stream);
}

static void use_path(const char *path)
{
    struct fan_target target;
    struct stat st;
    for (unsigned flags = 0; flags <= FAN_NOFOLLOW; flags++) {
        if (!fan_locate(AT_FDCWD, path, flags, &target))
            continue;
        fan_stat(&target, &st);
        if (target.where != FAN_INPUT)
            continue;
        use_file(&target);
        if (S_ISDIR(target.record->mode))
            list(&target);
    }
}

static void use_records(const struct fan_index *index)
{
    char path[8192] = JOBDIR_PREFIX "/";
    size_t start = strlen(path);
    for (uint64_t id = 0; id < index->record_count && id < RECORDS_MAX; id++) {
        int64_t bytes = fan_index_path(index, id, path + start, sizeof(path) - start - 8);
        if (bytes < 0)
            continue;
        path[start + (size_t)bytes] = '\0';
        use_path(path);
        strcpy(path + start + bytes, "/../x");
        use_path(path);
    }
}

static void attach(void)
{
    static uint8_t index[CAPACITY] __attribute__((aligned(64)));
    size_t bytes = tree_fill((struct tree_shape){1, 1}, index, CAPACITY);
    jobdir_attach("fuzz-client-job", index, bytes, TREE_PACK_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (fan_job.view_count == 0)
        attach();
    jobdir_replace_index(data, bytes);
    struct fan_dataset *dataset = fan_view_dataset(&fan_job.views[0]);
    if (dataset != NULL)
        use_records(&dataset->index);
    return 0;
}

size_t fan_fuzz_seed(unsigned number, uint8_t *buffer, size_t capacity)
{
    static const struct tree_shape shapes[] = {{0, 0}, {2, 8, 1}, {6, 20}};
    if (number >= sizeof(shapes) / sizeof(shapes[0]))
        return 0;
    return tree_fill(shapes[number], buffer, capacity);
}
