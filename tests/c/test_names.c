/*
 * The names segment: what readers are told while a writer changes it, after it was killed, where
 * there is no room, and of a damaged one.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../csrc/common/names.h"
#include "../../csrc/names/writer.h"
#include "check.h"

enum { MOST = 64 << 20, READERS = 3, ROUNDS = 300000, KILLS = 60, DAMAGES = 2000 };

static struct fan_names_writer *writer;
static struct fan_names names;
static int file;

static void make(uint64_t most)
{
    file = memfd_create("names", MFD_CLOEXEC);
    CHECK(fan_names_open(dup(file), 3, 1, most, &writer) == 0);
    void *at = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(at != MAP_FAILED && fan_names_attach(&names, at, most) == 0);
}

static void unmake(void)
{
    munmap(names.header, names.bytes);
    close(file);
}

static struct fan_output_attr attr_of(unsigned type, uint64_t number)
{
    return (struct fan_output_attr){
        .ino = number, .object = number, .size = number, .mtime_ns = (int64_t)number, .mode = type};
}

static int put(const char *path, unsigned type, uint64_t number)
{
    struct fan_output_attr attr = attr_of(type, number);
    const char *target = S_ISLNK(type) ? "to" : "";
    return fan_names_put(writer, 0, path, (uint32_t)strlen(path), type != 0 ? &attr : NULL, target,
                         (uint32_t)strlen(target), false, 7);
}

static void ask(const char *path)
{
    fan_names_put(writer, 0, path, (uint32_t)strlen(path), NULL, "", 0, true, 7);
}

static void cover(const char *path)
{
    CHECK(fan_names_cover(writer, 0, path, (uint32_t)strlen(path)) == 0);
}

static int look_below(const char *path, size_t base, bool follow, struct fan_output_attr *attr)
{
    char target[FAN_NAMES_PATH_MAX];
    struct fan_names_path named = {0, path, strlen(path), base};
    return fan_names_look(&names, &named, follow, attr, target, sizeof(target));
}

static int look(const char *path)
{
    struct fan_output_attr attr;
    return look_below(path, 0, true, &attr);
}

/* How often a listing has a name; -1: there is no listing to be had. */
static int listed(const char *path, const char *name)
{
    static _Thread_local char room[1 << 16];
    struct fan_names_path named = {0, path, strlen(path), 0};
    int64_t bytes = fan_names_list(&names, &named, room, sizeof(room));
    int found = 0;
    if (bytes < 0)
        return -1;
    for (int64_t at = 0; at < bytes;) {
        const struct fan_output_name *entry = (const void *)(room + at);
        found +=
            entry->name_bytes == strlen(name) && memcmp(entry + 1, name, entry->name_bytes) == 0;
        at += (int64_t)fan_names_entry_bytes(entry->name_bytes);
    }
    return found;
}

static void test_what_is_known(void)
{
    struct fan_output_attr attr;
    char target[FAN_NAMES_PATH_MAX];
    make(MOST);
    CHECK(look("a") == FAN_NAMES_ASK); /* nothing is covered */
    put("a", S_IFREG, 1);
    CHECK(look("a") == FAN_NAMES_ASK);
    cover("");
    CHECK(look("a") == -ENOENT && look("a/b/c") == -ENOENT);
    put("a", S_IFREG, 1);
    CHECK(look("a") == 0 && look("a/b") == -ENOTDIR && look("b") == -ENOENT);
    put("d", S_IFDIR, 2);
    CHECK(look("d") == FAN_NAMES_ASK && look("d/x") == FAN_NAMES_ASK); /* with unknown times */
    cover("d");
    CHECK(look_below("d", 0, true, &attr) == 0 && attr.mtime_ns == 2);
    put("d/x", S_IFREG, 3);
    CHECK(look_below("d", 0, true, &attr) == 0 && attr.mtime_ns == 7 && attr.ctime_ns == 7);
    CHECK(look("d/x") == 0 && look("d/y") == -ENOENT && look("d/y/z") == -ENOENT);
    CHECK(look_below("in/x", 2, true, &attr) == FAN_NAMES_ASK); /* the dataset's directory `in` */
    cover("in/e"); /* whose own name another rank has */
    CHECK(look_below("in/e/x", 2, true, &attr) == -ENOENT);
    CHECK(look_below("in/e", 2, true, &attr) == FAN_NAMES_ASK);
    put("l", S_IFLNK, 4);
    CHECK(look("l") == FAN_NAMES_ASK && look("l/x") == FAN_NAMES_ASK);
    struct fan_names_path link = {0, "l", 1, 0};
    CHECK(fan_names_look(&names, &link, false, &attr, target, sizeof(target)) == 0 &&
          strcmp(target, "to") == 0);
    CHECK(fan_names_look(&names, &link, false, &attr, target, 2) == FAN_NAMES_ASK);
    CHECK(listed("", "a") == 1 && listed("", "l") == 1 && listed("d", "x") == 1);
    put("l", S_IFREG, 5); /* with less room for a target */
    CHECK(look("l") == 0 && listed("", "l") == 1);
    put("a", 0, 0);
    CHECK(look("a") == -ENOENT && listed("", "a") == 0);
    fan_names_uncover(writer, 0, "d", 1);
    CHECK(look("d/x") == FAN_NAMES_ASK && look("d") == FAN_NAMES_ASK && listed("d", "x") == -1);
    fan_names_close(writer);
    unmake();
}

static void test_what_is_under_way(void)
{
    make(MOST);
    cover("");
    put("a", S_IFREG, 1);
    ask("draft");
    CHECK(look("draft") == FAN_NAMES_ASK && look("draft/x") == FAN_NAMES_ASK && look("a") == 0);
    CHECK(look("draft.partial") == FAN_NAMES_ASK && look("other") == -ENOENT);
    CHECK(listed("", "a") == -1);
    put("draft", 0, 0);
    CHECK(look("draft") == -ENOENT && look("draft.partial") == -ENOENT && listed("", "a") == 1);
    fan_names_begin_change(&names);
    CHECK(look("a") == FAN_NAMES_ASK && listed("", "a") == -1);
    fan_names_done(writer);
    CHECK(look("a") == 0);
    fan_names_begin_change(&names); /* by a process that is killed before it asks */
    CHECK(look("a") == FAN_NAMES_ASK && fan_names_announced(writer) == 2);
    fan_names_settle(writer, 1);
    CHECK(look("a") == FAN_NAMES_ASK);
    fan_names_settle(writer, 2);
    CHECK(look("a") == 0);
    fan_names_freeze(writer, true);
    CHECK(look("a") == FAN_NAMES_ASK && look("b") == FAN_NAMES_ASK);
    fan_names_freeze(writer, false);
    CHECK(look("a") == 0);
    fan_names_close(writer);
    CHECK(look("a") == FAN_NAMES_ASK); /* nobody keeps it any more */
    unmake();
}

static void test_many_and_no_room(void)
{
    char path[64];
    make(1 << 20);
    cover("");
    cover("d");
    put("d", S_IFDIR, 1);
    put("a", S_IFREG, 1);
    int rc = 0;
    uint64_t count = 0;
    for (; rc == 0 && count < 100000; count++) {
        snprintf(path, sizeof(path), "d/%lu", (unsigned long)count);
        rc = put(path, S_IFREG, count + 1);
        CHECK(rc == 0 ? look(path) == 0 : look(path) == FAN_NAMES_ASK);
    }
    CHECK(rc == -ENOSPC && count > 1000);
    CHECK(look("d/0") == FAN_NAMES_ASK && look("a") == 0); /* what is not covered may be there */
    cover("d");
    for (uint64_t i = 0; i + 1 < count; i++) { /* what was given back is had again */
        snprintf(path, sizeof(path), "d/%lu", (unsigned long)i);
        CHECK(put(path, S_IFREG, i + 1) == 0 && look(path) == 0);
    }
    fan_names_close(writer);
    unmake();
}

/* Directories that are moved below others make paths that no program could name at once. */
static void test_too_long_a_path(void)
{
    static char path[3 * FAN_NAMES_PATH_MAX];
    make(MOST);
    cover("");
    put("a", S_IFREG, 1);
    memset(path, 'd', sizeof(path) - 1);
    CHECK(fan_names_cover(writer, 0, path, sizeof(path) - 1) == -ENOSPC && look("a") == 0);
    path[FAN_NAMES_PATH_MAX - 2] = '\0';
    cover(path);
    path[FAN_NAMES_PATH_MAX - 2] = '/';
    CHECK(fan_names_put(writer, 0, path, sizeof(path) - 1, NULL, "", 0, true, 7) == -ENOSPC);
    path[FAN_NAMES_PATH_MAX - 2] = '\0';
    CHECK(look(path) == -ENOENT); /* its directory shows nothing, and goes */
    CHECK(look("a") == 0 && listed("", "a") == 1);
    fan_names_close(writer);
    unmake();
}

/* While `moving` goes from one name to the other, with another number each time, and names come and
 * go around them, readers see one of both or both, whole, and the name that stays exactly once. */
static atomic_bool over;

static void *read_on(void *unused)
{
    (void)unused;
    uint64_t seen = 0, told = 0, looks = 0;
    while (!atomic_load(&over)) {
        struct fan_output_attr attr;
        int rc = look_below("d/stays", 0, true, &attr);
        CHECK(rc == 0 || rc == FAN_NAMES_ASK);
        rc = look_below("d/moving", 0, true, &attr);
        CHECK(rc == 0 || rc == -ENOENT || rc == FAN_NAMES_ASK);
        if (rc == 0) {
            CHECK(attr.ino == attr.size && attr.object == attr.size && attr.size >= seen);
            seen = attr.size; /* never one from before */
            told++;
        }
        int times = ++looks % 16 == 0 ? listed("d", "stays") : 1;
        CHECK(times == 1 || times == -1);
    }
    return (void *)told;
}

static void test_readers_and_a_writer(void)
{
    pthread_t threads[READERS];
    make(MOST);
    cover("");
    put("d", S_IFDIR, 1);
    cover("d");
    put("d/stays", S_IFREG, 2);
    atomic_store(&over, false);
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_create(&threads[i], NULL, read_on, NULL) == 0);
    for (uint64_t i = 1; i < ROUNDS; i++) {
        char path[64];
        put("d/moving", i % 3 != 0 ? S_IFREG : 0, i);
        snprintf(path, sizeof(path), "d/a-%lu", (unsigned long)(i * 7919 % 300));
        put(path, i % 2 != 0 ? S_IFREG : 0, i);
        if (i % 500 == 0) {
            fan_names_uncover(writer, 0, "e", 1);
            cover("e");
        }
    }
    atomic_store(&over, true);
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    fan_names_close(writer);
    unmake();
}

/* A writer of its own process, which changes names until it is killed. */
static void write_on(void)
{
    CHECK(fan_names_open(file, 0, 1, MOST, &writer) == 0);
    cover("");
    for (uint64_t i = 1;; i++) {
        char path[64];
        snprintf(path, sizeof(path), "name-%lu", (unsigned long)(i * 7919 % 3000));
        put(path, i % 4 != 0 ? S_IFREG : 0, i);
    }
}

static void test_a_killed_writer(void)
{
    for (unsigned i = 0; i < KILLS; i++) {
        file = memfd_create("names", 0);
        pid_t pid = fork();
        if (pid == 0)
            write_on();
        struct stat st = {0};
        while (fstat(file, &st) == 0 && st.st_size == 0)
            usleep(100);
        void *at = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        CHECK(at != MAP_FAILED);
        while (fan_names_attach(&names, at, MOST) != 0)
            usleep(100);
        usleep(i * 37 % 3000);
        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
        CHECK(look("name-1") == FAN_NAMES_ASK && look("none") == FAN_NAMES_ASK);
        CHECK(listed("", "name-1") == -1);
        unmake();
    }
}

/* Whatever the words of a segment are, no read leaves it, and none takes for ever. */
static void test_a_damaged_segment(void)
{
    char path[64];
    srand(1);
    for (unsigned i = 0; i < DAMAGES; i++) {
        make(1 << 20);
        cover("");
        for (uint64_t n = 1; n < 20; n++) {
            snprintf(path, sizeof(path), "name-%lu", (unsigned long)n);
            put(path, S_IFREG, n);
        }
        fan_names_close(writer);
        *(int *)&names.header->owner = 1; /* as if it were kept still */
        uint64_t *words = (uint64_t *)((char *)names.header + 8);
        for (unsigned n = 0; n < 30; n++) {
            size_t word = (unsigned)rand() % ((unsigned)rand() % 2 ? 16 : 4096);
            words[word] = (unsigned)rand() % 2 ? (uint64_t)rand() % 20000 : (uint64_t)rand() << 40;
        }
        names.header->sequence &= ~UINT64_C(1);
        for (uint64_t n = 1; n < 20; n++) {
            snprintf(path, sizeof(path), "name-%lu", (unsigned long)n);
            look(path);
        }
        listed("", "name-1");
        unmake();
    }
}

int main(void)
{
    test_what_is_known();
    test_what_is_under_way();
    test_many_and_no_room();
    test_too_long_a_path();
    test_readers_and_a_writer();
    test_a_killed_writer();
    test_a_damaged_segment();
    return 0;
}
