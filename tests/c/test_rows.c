/* Files read into the rows of an array: all of them, and up to the first that cannot be. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../csrc/batch/rows.h"
#include "check.h"

enum { BYTES = 5000, FILES = 3 };

static char rows[FILES * BYTES];

static void make(const char *name, char content, unsigned bytes)
{
    char data[BYTES + 1];
    memset(data, content, sizeof(data));
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes && close(fd) == 0);
}

static int32_t expect(const char *paths, uint64_t count, uint64_t read)
{
    int32_t error = -1;
    int next = dup(0);
    CHECK(next >= 0 && close(next) == 0);
    memset(rows, 0, sizeof(rows));
    CHECK(fan_read_rows(paths, count, rows, BYTES, &error) == read);
    for (uint64_t i = 0; i < read; i++)
        CHECK(rows[i * BYTES] == 'a' + (char)i && rows[i * BYTES + BYTES - 1] == 'a' + (char)i);
    int after = dup(0); /* no descriptor is left open */
    CHECK(after == next && close(after) == 0);
    return error;
}

static void check_files(void)
{
    CHECK(expect("a\0b\0c", 3, 3) == 0);
    CHECK(expect("a\0b\0c", 1, 1) == 0);
    CHECK(expect("", 0, 0) == 0);
    CHECK(expect("a\0absent\0c", 3, 1) == ENOENT);
    CHECK(expect("a\0a/b\0c", 3, 1) == ENOTDIR);
    CHECK(expect("a\0long\0c", 3, 1) == 0);
    CHECK(expect("a\0b\0short", 3, 2) == 0);
    CHECK(expect("folder\0b", 2, 0) == 0);
}

static void nothing(int signal)
{
    (void)signal;
}

/* A signal ends the call, so that its program hears of it; what was read stays counted. */
static void *interrupt(void *reader)
{
    for (int i = 0; i < 50; i++) {
        usleep(10000);
        pthread_kill(*(pthread_t *)reader, SIGUSR1);
    }
    int fd = open("pipe", O_WRONLY | O_NONBLOCK); /* ends an open that no signal ended */
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void check_signal(void)
{
    struct sigaction action = {.sa_handler = nothing};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && mkfifo("pipe", 0600) == 0);
    pthread_t self = pthread_self(), other;
    CHECK(pthread_create(&other, NULL, interrupt, &self) == 0);
    CHECK(expect("a\0pipe", 2, 1) == EINTR);
    CHECK(pthread_join(other, NULL) == 0);
}

int main(void)
{
    char folder[] = "/tmp/fanstore-rows-XXXXXX";
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
    make("a", 'a', BYTES);
    make("b", 'b', BYTES);
    make("c", 'c', BYTES);
    make("long", 'l', BYTES + 1);
    make("short", 's', BYTES - 1);
    CHECK(mkdir("folder", 0700) == 0);
    check_files();
    check_signal();
    const char *names[] = {"a", "b", "c", "long", "short", "pipe"};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        CHECK(unlink(names[i]) == 0);
    CHECK(rmdir("folder") == 0 && rmdir(folder) == 0);
    return 0;
}
