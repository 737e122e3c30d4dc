/* Cancelled threads: which calls act on a request that is pending, and what is left behind. */
#include "calls.h"

#include <dirent.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <wchar.h>

enum { JOIN_S = 20 };

/* What the calls are given: made anew for each. */
static int fd, other, ends[2];
static char room[200003], path[PATH_MAX], made[PATH_MAX];
static FILE *stream;
static DIR *directory;
static struct pollfd polled;
static sem_t started, go;
static volatile int cleaned;

static void clean(void *unused)
{
    cleaned = 1;
}

static void *run_act(void *act)
{
    int type;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    sem_post(&started);
    sem_wait(&go);
    pthread_cleanup_push(clean, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    ((void (*)(void)) act)();
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

static void join_thread(const char *name, pthread_t thread)
{
    struct timespec until;
    void *result = NULL;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += JOIN_S;
    int code = pthread_timedjoin_np(thread, &result, &until);
    SHOW("%s: %s %s, cleaned up %d", name, strerrorname_np(code),
         result == PTHREAD_CANCELED ? "cancelled" : "returned", cleaned);
    if (code != 0) {
        _exit(3);
    }
}

/* One call of a thread that is to end. */
static void try_act(const char *name, void (*act)(void))
{
    pthread_t thread;
    fd = reader("lines");
    other = open(in_w("scratch"), O_RDWR | O_CREAT, 0644);
    stream = fopen(in_r("lines"), "r");
    directory = opendir(in_r("sub"));
    snprintf(path, sizeof(path), "%s", in_r("small"));
    snprintf(made, sizeof(made), "%s", in_d("new"));
    polled = (struct pollfd){.fd = fd, .events = POLLIN};
    cleaned = 0;
    OK(other >= 0 && stream != NULL && directory != NULL && pipe(ends) == 0);
    OK(sem_init(&started, 0, 0) == 0 && sem_init(&go, 0, 0) == 0);
    OK(pthread_create(&thread, NULL, run_act, (void *) act) == 0);
    sem_wait(&started);
    OK(pthread_cancel(thread) == 0);
    sem_post(&go);
    join_thread(name, thread);
    if (stream != NULL) {
        SHOW("unlocked %d", ftrylockfile(stream) == 0);
        funlockfile(stream);
        fclose(stream);
    }
    if (directory != NULL) {
        closedir(directory);
    }
    closefrom(3);
    SHOW("next %d", reader("x"));
    closefrom(3);
}

#define ACT(NAME, ...)                                                                             \
    static void act_##NAME(void) { __VA_ARGS__; }
#define TRY(NAME) try_act(#NAME, act_##NAME)

ACT(open, open(path, O_RDONLY))
ACT(openat, openat(AT_FDCWD, path, O_RDONLY))
ACT(open_path, open(path, O_PATH))
ACT(open_directory, open(getenv("R"), O_RDONLY | O_DIRECTORY))
ACT(open_none, open(in_r("none"), O_RDONLY))
ACT(creat, close(creat(made, 0644)))
ACT(syscall_open, syscall(SYS_openat, AT_FDCWD, path, O_RDONLY))

CASE(opening)
{
    TRY(open);
    TRY(openat);
    TRY(open_path);
    TRY(open_directory);
    TRY(open_none);
    TRY(creat);
    show_path("not made", in_d("new"));
    TRY(syscall_open);
}

ACT(close, close(fd))
ACT(close_other, close(other))
ACT(syscall_close, syscall(SYS_close, fd))
ACT(close_range, close_range(fd, fd, 0))
ACT(dup, dup(fd))
ACT(dup2, dup2(fd, 40))

CASE(numbers)
{
    TRY(close);
    TRY(close_other);
    TRY(syscall_close);
    TRY(close_range);
    TRY(dup);
    TRY(dup2);
}

static struct iovec parts[] = {{room, 10}, {room + 10, 10}};

ACT(read, read(fd, room, sizeof(room)))
ACT(read_nothing, read(fd, room, 0))
ACT(pread, pread(fd, room, 10, 5))
ACT(pread_end, pread(fd, room, 10, 1 << 30))
ACT(readv, readv(fd, parts, 2))
ACT(preadv, preadv(fd, parts, 2, 0))
ACT(preadv2, preadv2(fd, parts, 2, 0, 0))
ACT(syscall_read, syscall(SYS_read, fd, room, 10))
ACT(lseek, lseek(fd, 0, SEEK_END))
ACT(sendfile, sendfile(ends[1], fd, NULL, 10))
ACT(copy_file_range, copy_file_range(fd, NULL, other, NULL, 10, 0))
ACT(splice, splice(fd, NULL, ends[1], NULL, 10, 0))
ACT(tee, tee(fd, ends[1], 10, 0))
ACT(getdents, getdents64(fd, room, 100))
ACT(mmap, mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0))

CASE(reading)
{
    TRY(read);
    TRY(read_nothing);
    TRY(pread);
    TRY(pread_end);
    TRY(readv);
    TRY(preadv);
    TRY(preadv2);
    TRY(syscall_read);
    TRY(lseek);
    TRY(sendfile);
    TRY(copy_file_range);
    TRY(splice);
    TRY(tee);
    TRY(getdents);
    TRY(mmap);
}

static struct flock whole = {.l_type = F_RDLCK};
static struct timeval second = {1, 0};

static void act_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    select(fd + 1, &set, NULL, NULL, &second);
}

ACT(fsync, fsync(fd))
ACT(fdatasync, fdatasync(fd))
ACT(syncfs, syncfs(fd))
ACT(sync_file_range, sync_file_range(fd, 0, 0, 0))
ACT(setlkw, fcntl(fd, F_SETLKW, &whole))
ACT(setlk, fcntl(fd, F_SETLK, &whole))
ACT(getfl, fcntl(fd, F_GETFL))
ACT(lockf_lock, lockf(fd, F_LOCK, 0))
ACT(lockf_try, lockf(fd, F_TLOCK, 0))
ACT(flock, flock(fd, LOCK_SH))
ACT(fallocate, fallocate(fd, 0, 0, 10))
ACT(posix_fallocate, posix_fallocate(fd, 0, 10))
ACT(ftruncate, ftruncate(fd, 0))
ACT(fadvise, posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED))
ACT(readahead, readahead(fd, 0, 4096))
ACT(poll, poll(&polled, 1, 0))
ACT(ppoll, ppoll(&polled, 1, NULL, NULL))

CASE(control)
{
    TRY(fsync);
    TRY(fdatasync);
    TRY(syncfs);
    TRY(sync_file_range);
    TRY(setlkw);
    TRY(setlk);
    TRY(getfl);
    TRY(lockf_lock);
    TRY(lockf_try);
    TRY(flock);
    TRY(fallocate);
    TRY(posix_fallocate);
    TRY(ftruncate);
    TRY(fadvise);
    TRY(readahead);
    TRY(poll);
    SHOW("whole %d", polled.fd >= 0);
    TRY(ppoll);
    SHOW("whole %d", polled.fd >= 0);
    TRY(select);
}

static struct stat facts;

ACT(stat, stat(path, &facts))
ACT(fstat, fstat(fd, &facts))
ACT(access, access(path, R_OK))
ACT(readlink, readlink(in_r("to_dir"), room, 10))
ACT(realpath, realpath(path, room))
ACT(opendir, closedir(opendir(getenv("R"))))
ACT(readdir, readdir(directory))

static void act_closedir(void)
{
    DIR *given = directory;
    directory = NULL;
    closedir(given);
}

static void act_glob(void)
{
    glob_t found;
    glob(in_r("s*"), 0, NULL, &found);
}

static void act_scandir(void)
{
    struct dirent **names;
    scandir(getenv("R"), &names, NULL, NULL);
}

CASE(names)
{
    TRY(stat);
    TRY(fstat);
    TRY(access);
    TRY(readlink);
    TRY(realpath);
    TRY(opendir);
    TRY(readdir);
    TRY(closedir);
    TRY(glob);
    TRY(scandir);
}

static wchar_t wide[100];

ACT(fopen, fclose(fopen(path, "r")))
ACT(fread, fread(room, 1, 10, stream))
ACT(fread_large, fread(room, 1, sizeof(room), stream))
ACT(fgetc, fgetc(stream))
ACT(fgets, fgets(room, 100, stream))
ACT(getline, char *line = NULL; size_t size = 0; getline(&line, &size, stream))
ACT(fgetwc, fgetwc(stream))
ACT(fgetws, fgetws(wide, 100, stream))
ACT(fseek, fseek(stream, 5, SEEK_SET))
ACT(freopen, stream = freopen(path, "r", stream))

static void act_fclose(void)
{
    FILE *given = stream;
    stream = NULL;
    fclose(given);
}

CASE(streams)
{
    TRY(fopen);
    TRY(fread);
    TRY(fread_large);
    TRY(fgetc);
    TRY(fgets);
    TRY(getline);
    TRY(fgetwc);
    TRY(fgetws);
    TRY(fseek);
    TRY(fclose);
    TRY(freopen);
}

/* Threads that do nothing but open, read and close. */
static void close_mine(void *mine)
{
    if (*(volatile int *) mine >= 0) {
        close(*(volatile int *) mine);
    }
}

static void *use_for_ever(void *data)
{
    volatile int mine = -1;
    char *own = data;
    pthread_cleanup_push(close_mine, (void *) &mine);
    sem_post(&started);
    for (;;) {
        mine = open(path, O_RDONLY);
        read(mine, own, 10);
        close(mine);
        mine = -1;
    }
    pthread_cleanup_pop(0);
    return NULL;
}

CASE(readers_that_do_nothing_else)
{
    static char rooms[8][16];
    pthread_t threads[8];
    snprintf(path, sizeof(path), "%s", in_r("small"));
    sem_init(&started, 0, 0);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 8; i++) {
            OK(pthread_create(&threads[i], NULL, use_for_ever, rooms[i]) == 0);
        }
        for (int i = 0; i < 8; i++) {
            sem_wait(&started);
        }
        for (int i = 0; i < 8; i++) {
            OK(pthread_cancel(threads[i]) == 0);
        }
        for (int i = 0; i < 8; i++) {
            join_thread("reader", threads[i]);
        }
    }
    show_path("reads on", in_r("small"));
}

static void *disabled(void *unused)
{
    char text[16] = {0};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    int mine = open(path, O_RDONLY);
    read(mine, text, 5);
    close(mine);
    SHOW("reads %s", text);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    mine = open(path, O_RDONLY);
    return NULL;
}

CASE(put_off)
{
    pthread_t thread;
    snprintf(path, sizeof(path), "%s", in_r("small"));
    OK(pthread_create(&thread, NULL, disabled, NULL) == 0);
    join_thread("put off", thread);
    TELL(reader("x"));
}

/* One that may be cancelled anywhere leaves nothing that stops others. */
static void *anywhere(void *unused)
{
    int old = -1;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    sem_post(&started);
    for (;;) {
        int mine = open(path, O_RDONLY);
        pread(mine, room, 1000, 100000);
        close(mine);
    }
}

CASE(cancelled_anywhere)
{
    char own[1000];
    int file = reader("mid.bin");
    snprintf(path, sizeof(path), "%s", in_r("mid.bin"));
    for (int round = 0; round < 40; round++) {
        pthread_t thread;
        sem_init(&started, 0, 0);
        OK(pthread_create(&thread, NULL, anywhere, NULL) == 0);
        sem_wait(&started);
        usleep(50 * round);
        OK(pthread_cancel(thread) == 0);
        join_thread("anywhere", thread);
    }
    TELL(pread(file, own, sizeof(own), 100000));
    SHOW("%lx", sum(own, sizeof(own)));
    show_path("reads on", in_r("small"));
}
