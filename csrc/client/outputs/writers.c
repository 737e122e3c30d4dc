#include "writers.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "../../common/sys.h"
#include "../machine/vfork.h"

enum { PROBES_MAX = 512, STEP = 61 };

/* Whether this process is in the daemon's PID namespace, so that the daemon can see whether it
 * lives. */
enum known { UNKNOWN, SAME, OTHER };
static atomic_int known;

static bool is_seen(void)
{
    struct stat st;
    int state = atomic_load_explicit(&known, memory_order_relaxed);
    if (state == UNKNOWN) {
        bool same = FAN_SYS(newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) == 0 &&
                    st.st_ino == fan_job.outputs->namespace_inode;
        state = same ? SAME : OTHER;
        atomic_store_explicit(&known, state, memory_order_relaxed);
    }
    return state == SAME;
}

/* This process's number; 0: not determined yet. */
static atomic_uint number;

static uint32_t own_process(void)
{
    uint32_t own = atomic_load_explicit(&number, memory_order_relaxed);
    if (own != 0 && !fan_in_vfork_child())
        return own;
    own = (uint32_t)FAN_SYS(getpid);
    if (!fan_in_vfork_child())
        atomic_store_explicit(&number, own, memory_order_relaxed);
    return own;
}

/* Forgets that another process was killed with this file unfinished: a process that opens the file
 * again is responsible for it from now on. */
static void forget_killed(uint64_t inode)
{
    struct fan_outputs *outputs = fan_job.outputs;
    if (__atomic_load_n(&outputs->killed, __ATOMIC_ACQUIRE) == 0)
        return;
    for (unsigned i = 0; i < FAN_WRITERS; i++) {
        struct fan_writer *writer = &outputs->writers[i];
        uint32_t expected = FAN_WRITER_KILLED;
        if (__atomic_load_n(&writer->process, __ATOMIC_ACQUIRE) == expected &&
            writer->inode == inode &&
            __atomic_compare_exchange_n(&writer->process, &expected, 0, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            __atomic_fetch_sub(&outputs->killed, 1, __ATOMIC_RELEASE);
    }
}

/* Claims an entry. Returns its number + 1, or 0 if there is no free entry. Writes the inode after
 * the entry is claimed; the daemon ignores an entry without an inode. */
static uint32_t claim(uint64_t inode)
{
    uint32_t process = own_process();
    if (!is_seen())
        return 0;
    forget_killed(inode);
    uint32_t at = process * STEP + (uint32_t)inode;
    for (unsigned i = 0; i < PROBES_MAX; i++) {
        uint32_t entry = (at + i) % FAN_WRITERS, expected = 0;
        struct fan_writer *writer = &fan_job.outputs->writers[entry];
        if (__atomic_load_n(&writer->process, __ATOMIC_RELAXED) != 0 ||
            !__atomic_compare_exchange_n(&writer->process, &expected, process, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&writer->inode, inode, __ATOMIC_RELEASE);
        return entry + 1;
    }
    return 0;
}

static void release(struct fan_writer *writer)
{
    __atomic_store_n(&writer->inode, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&writer->silent, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&writer->process, 0, __ATOMIC_RELEASE);
}

static bool is_own(const struct fan_writer *writer)
{
    return __atomic_load_n(&writer->process, __ATOMIC_ACQUIRE) == own_process();
}

static struct fan_writer *entry_of(const struct fan_file *file)
{
    return file->writer != 0 ? &fan_job.outputs->writers[file->writer - 1] : NULL;
}

void fan_writer_claim(struct fan_file *file)
{
    const struct fan_writer *writer = entry_of(file);
    if (writer == NULL || !is_own(writer))
        file->writer = claim(file->slot->inode);
}

void fan_writer_claim_handed(uint64_t inode)
{
    claim(inode);
}

void fan_writer_release(const struct fan_file *file)
{
    struct fan_writer *writer = entry_of(file);
    if (writer != NULL && is_own(writer))
        release(writer);
}

void fan_writer_pass_on(struct fan_file *file, uint32_t process)
{
    struct fan_writer *writer = entry_of(file);
    file->writer = 0;
    if (writer == NULL || !is_own(writer))
        return;
    __atomic_store_n(&writer->silent, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&writer->process, process, __ATOMIC_RELEASE);
}

static void release_but(uint32_t process, bool (*is_held)(uint32_t entry))
{
    for (uint32_t i = 0; i < FAN_WRITERS; i++) {
        struct fan_writer *writer = &fan_job.outputs->writers[i];
        if (__atomic_load_n(&writer->process, __ATOMIC_ACQUIRE) == process &&
            (is_held == NULL || !is_held(i + 1)))
            release(writer);
    }
}

void fan_writer_release_others(bool (*is_held)(uint32_t entry))
{
    release_but(own_process(), is_held);
}

void fan_writer_release_all(void)
{
    release_but(own_process(), NULL);
}

void fan_writer_release_of(uint32_t process)
{
    release_but(process, NULL);
}

void fan_writer_after_fork_child(void)
{
    atomic_store(&known, UNKNOWN); /* the number may be the first of another namespace */
    atomic_store(&number, 0);
}
