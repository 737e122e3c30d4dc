#include "outdir.h"

#include <string.h>
#include <sys/stat.h>

#include "../../common/sys.h"
#include "../job/known.h"
#include "../machine/vfork.h"
#include "linked.h"

enum { REMEMBERED_MAX = 512 };

/* The last path that was asked for. busy: somebody uses it; others ask the kernel. It may stay so
 * in a child of fork. file, generation: whose path it is. moves: how many directories of this node
 * had been moved or removed, or were being, when it was asked for. */
static struct {
    atomic_flag busy;
    const struct fan_file *file;
    unsigned generation;
    uint64_t moves;
    size_t bytes;
    char text[REMEMBERED_MAX];
} last = {.busy = ATOMIC_FLAG_INIT};

static unsigned generation_of(const struct fan_file *file)
{
    return atomic_load_explicit(&file->generation, memory_order_relaxed);
}

static bool is_last(const struct fan_file *file, uint64_t moves)
{
    return last.file == file && last.moves == moves && last.generation == generation_of(file);
}

/* Whether a descriptor still stands for a file. Another thread may have given its number to another
 * directory, which the kernel knows first. */
static bool is_of(int fd, const struct fan_file *file, unsigned generation)
{
    struct stat st;
    return FAN_SYS(fstat, fd, &st) == 0 && st.st_ino == file->slot->inode &&
           fan_file_get(fd) == file && generation_of(file) == generation;
}

/* What is being moved meanwhile may have either path: it isn't remembered. */
static long ask(int fd, const struct fan_file *file, const struct fan_names_header *header,
                char *to, size_t capacity)
{
    unsigned generation = generation_of(file);
    uint64_t done = __atomic_load_n(&header->moves_done, __ATOMIC_SEQ_CST);
    uint64_t begun = __atomic_load_n(&header->moves_begun, __ATOMIC_SEQ_CST);
    long length = fan_fd_path(fd, to, capacity);
    last.file = NULL;
    if (begun == done && length > 0 && length < REMEMBERED_MAX && is_of(fd, file, generation)) {
        last.file = file;
        last.generation = generation;
        last.moves = begun;
        last.bytes = (size_t)length;
        memcpy(last.text, to, last.bytes + 1);
    }
    return length;
}

long fan_outdir_path(int fd, const struct fan_file *file, char *to, size_t capacity)
{
    struct fan_names names;
    if (fan_in_vfork_child() || !fan_job_names(&names) ||
        atomic_flag_test_and_set_explicit(&last.busy, memory_order_acquire))
        return fan_fd_path(fd, to, capacity);
    long length = (long)last.bytes;
    if (last.bytes < capacity &&
        is_last(file, __atomic_load_n(&names.header->moves_begun, __ATOMIC_SEQ_CST)))
        memcpy(to, last.text, last.bytes + 1);
    else
        length = ask(fd, file, names.header, to, capacity);
    atomic_flag_clear_explicit(&last.busy, memory_order_release);
    return length;
}
