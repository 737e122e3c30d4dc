/*
 * Open file descriptions that become the kernel's: the store in which sharers meet, readers in
 * threads and in another process while the offset moves, and what is looked at before an exec.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../csrc/client/code/program.h"
#include "../../csrc/client/content/content_io.h"
#include "../../csrc/client/files/store.h"
#include "../../csrc/client/handoff/handoff.h"
#include "../../csrc/client/open/open.h"
#include "../../tools/fuzz/jobdir.h"
#include "../../tools/fuzz/tree.h"
#include "check.h"

enum { CAPACITY = 1 << 18, THREADS = 4 };

static const struct fan_index *tree_index;

static bool is_odd(const struct fan_store_tag *tag, const void *context)
{
    (void)context;
    return tag->slot % 2 == 1;
}

static void check_store(void)
{
    enum { MANY = 1000 };
    int store = fan_store_new(), kept[2];
    CHECK(store >= 0 && pipe(kept) == 0);
    CHECK(fan_store_get(store, -1) == -ENOENT);
    for (int i = 0; i < MANY; i++) {
        struct fan_store_tag tag = {.key = -1000 - i, .slot = i == 0 ? 0 : 1};
        CHECK(fan_store_put(store, &tag, kept[1], is_odd, NULL) == 0); /* stale ones make room */
    }
    int fd = fan_store_get(store, -1000), again = fan_store_get(store, -1000);
    CHECK(fd >= 0 && again >= 0 && fd != again); /* the one that is of use was kept */
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(write(fd, "x", 1) == 1);
    char seen;
    CHECK(read(kept[0], &seen, 1) == 1 && seen == 'x');
    CHECK(fan_store_get(store, -1001) == -ENOENT);
    close(fd), close(again), close(store), close(kept[0]), close(kept[1]);
}

static int open_record(uint64_t id)
{
    struct fan_target target;
    char path[512] = JOBDIR_PREFIX "/";
    size_t start = strlen(path);
    int64_t bytes = fan_index_path(tree_index, id, path + start, sizeof(path) - start - 1);
    CHECK(bytes >= 0);
    path[start + (size_t)bytes] = '\0';
    CHECK(fan_locate(AT_FDCWD, path, FAN_NOFOLLOW, &target) && target.where == FAN_INPUT);
    return fan_open(&target, O_RDONLY, 0);
}

/* The largest stored file that the fixture fills. */
static uint64_t find_file(void)
{
    uint64_t found = 0;
    for (uint64_t id = 1; id < tree_index->header->record_count; id++) {
        const struct fan_record *record = fan_index_record(tree_index, id);
        if (S_ISREG(record->mode) && record->codec == 0 && record->logical_size <= 8192 &&
            (found == 0 || record->logical_size > tree_index->records[found].logical_size))
            found = id;
    }
    CHECK(found != 0);
    return found;
}

static void close_record(int fd)
{
    fan_file_remove(fd);
    close(fd);
}

static atomic_uint taken;

static void *read_on(void *file)
{
    char piece[7];
    ssize_t got;
    while ((got = fan_content_read(file, piece, sizeof(piece))) > 0)
        atomic_fetch_add(&taken, (unsigned)got);
    CHECK(got == 0);
    return NULL;
}

/* Whatever moves meanwhile, each byte is read once. */
static void check_threads(uint64_t id, bool move)
{
    pthread_t threads[THREADS];
    int fd = open_record(id), real = -1;
    struct fan_file *file = fan_file_get(fd);
    CHECK(fd >= 0 && file != NULL);
    atomic_store(&taken, 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, read_on, file) == 0);
    if (move)
        CHECK((real = fan_move_make(file)) >= 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(taken == tree_index->records[id].logical_size);
    CHECK(fan_content_offset(file) == (int64_t)taken);
    if (real >= 0)
        CHECK(lseek(real, 0, SEEK_CUR) == (off_t)taken && close(real) == 0);
    close_record(fd);
}

static void check_one_offset(uint64_t id)
{
    uint8_t mine[8], theirs[8];
    int fd = open_record(id), status;
    struct fan_file *file = fan_file_get(fd);
    CHECK(fan_content_seek(file, 3, SEEK_SET) == 3);
    fan_file_before_fork();
    pid_t child = fork();
    if (child == 0) {
        fan_process_after_fork_child();
        int real = fan_move_make(file), other = fan_move_make(file);
        _exit(real < 0 || other < 0 || read(real, theirs, 5) != 5 || lseek(other, 0, 1) != 8 ||
              write(real, "x", 1) != -1 || theirs[0] != jobdir_byte(id, 3));
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(fan_content_offset(file) == 8);
    CHECK(fan_content_read(file, mine, 8) == 8 && mine[0] == jobdir_byte(id, 8));
    CHECK(fan_content_pread(file, mine, 8, 0) == 8 && mine[0] == jobdir_byte(id, 0));
    struct iovec parts[2] = {{mine, 4}, {mine + 4, 4}};
    CHECK(fan_content_readv(file, parts, 2) == 8 && mine[7] == jobdir_byte(id, 23));
    CHECK(fan_content_seek(file, 0, SEEK_END) ==
          (int64_t)tree_index->records[id].logical_size);
    CHECK(fan_content_read(file, mine, 8) == 0);
    close_record(fd);
}

static void check_handed_on(uint64_t id)
{
    struct fan_handoff_need need;
    struct stat st;
    int fd = open_record(id), twin = dup(fd), shut = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    struct fan_file *file = fan_file_get(fd);
    CHECK(fan_file_share(twin, file) == 0 && fan_file_share(shut, file) == 0);
    CHECK(fan_content_seek(file, 9, SEEK_SET) == 9);
    fan_handoff_measure(&need);
    CHECK(need.placeholders && need.bytes > 0);
    fan_handoff_make_real();
    fan_handoff_measure(&need);
    CHECK(!need.placeholders && need.bytes == 0);
    CHECK(fan_file_get(fd) == NULL && fan_file_get(twin) == NULL && fan_file_get(shut) == NULL);
    CHECK(fstat(fd, &st) == 0 && S_ISREG(st.st_mode));
    CHECK((uint64_t)st.st_size == tree_index->records[id].logical_size);
    CHECK(lseek(fd, 1, SEEK_CUR) == 10 && lseek(twin, 1, SEEK_CUR) == 11);
    CHECK(lseek(shut, 0, SEEK_CUR) == 11);
    CHECK((fcntl(shut, F_GETFD) & FD_CLOEXEC) && !(fcntl(fd, F_GETFD) & FD_CLOEXEC));
    close(fd), close(twin), close(shut);
}

static bool shuts_out(const void *image, size_t bytes)
{
    int fd = memfd_create("program", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, image, bytes) == (ssize_t)bytes);
    bool answer = fan_program_shuts_out_fd(fd);
    close(fd);
    return answer;
}

/* This program is a dynamic one; bent ones have an answer, too. */
static void check_programs(void)
{
    static uint8_t image[65536], bent[sizeof(image)];
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, image, sizeof(image));
    close(fd);
    CHECK(got > 4096);
    CHECK(!fan_program_shuts_out(AT_FDCWD, "/proc/self/exe"));
    CHECK(!fan_program_shuts_out(AT_FDCWD, "/nowhere") && !fan_program_shuts_out(-1, NULL));
    CHECK(!shuts_out(image, (size_t)got) && !shuts_out(image, 3) && !shuts_out("#!/bin/sh\n", 10));
    srand(1);
    for (int i = 0; i < 3000; i++) {
        memcpy(bent, image, (size_t)got);
        for (int j = 0; j < 3; j++)
            bent[4 + rand() % 700] = (uint8_t)rand();
        shuts_out(bent, (size_t)(i % 2 ? got : 4 + rand() % 700));
    }
    Elf64_Ehdr *header = (void *)image;
    header->e_phnum = 0;
    CHECK(shuts_out(image, (size_t)got));
}

static void check_first_lines(void)
{
    char *argument;
    char plain[] = "#! /bin/sh \t\nrest", with[] = "#!/usr/bin/env  perl -w \n", none[] = "#! \n";
    CHECK(strcmp(fan_script_parse(plain, &argument), "/bin/sh") == 0 && argument == NULL);
    CHECK(strcmp(fan_script_parse(with, &argument), "/usr/bin/env") == 0);
    CHECK(strcmp(argument, "perl -w") == 0);
    CHECK(fan_script_parse(none, &argument) == NULL);
}

int main(void)
{
    static uint8_t buffer[CAPACITY] __attribute__((aligned(64)));
    size_t bytes = tree_fill((struct tree_shape){4, 12}, buffer, CAPACITY);
    CHECK(bytes > 0);
    jobdir_attach("test-moved-job", buffer, bytes, TREE_PACK_BYTES);
    tree_index = &fan_view_dataset(&fan_job.views[0])->index;
    uint64_t id = find_file();
    CHECK(tree_index->records[id].logical_size > 64);
    check_store();
    for (int i = 0; i < 50; i++)
        check_threads(id, i % 5 != 0);
    check_one_offset(id);
    check_handed_on(id);
    check_programs();
    check_first_lines();
    printf("test_moved: no fault\n");
    return 0;
}
