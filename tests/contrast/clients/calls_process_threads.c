/* Threads and signals: small stacks, and reads that are torn away. */
#include "calls.h"

#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

static void *use_files(void *given)
{
    char text[16] = {0};
    struct stat status;
    int fd = open(in_r("sub/back"), O_RDONLY);
    long right = fd >= 0 && read(fd, text, 6) == 6 && strcmp(text, "inner\n") == 0;
    close(fd);
    right += stat(in_r("to_dir/deep/leaf"), &status) == 0;
    right += access(in_r("none"), F_OK) != 0;
    FILE *file = given == NULL ? fopen(in_r("small"), "r") : NULL;
    if (file != NULL) {
        right += fgetc(file) == 'h';
        fclose(file);
    }
    return (void *) right;
}

static void *write_files(void *given)
{
    int fd = open(in_d("f"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    long right = fd >= 0 && write(fd, "thread", 6) == 6;
    right += close(fd) == 0;
    return (void *) right;
}

static void in_small_thread(const char *label, void *(*work)(void *), size_t bytes)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *result = NULL;
    pthread_attr_init(&attributes);
    TELL_CODE(pthread_attr_setstacksize(&attributes, bytes));
    OK(pthread_create(&thread, &attributes, work, NULL) == 0);
    OK(pthread_join(thread, &result) == 0);
    SHOW("%s: %ld", label, (long) result);
}

CASE(threads_with_16_kib_read) { in_small_thread("read", use_files, 16384); }

CASE(threads_with_16_kib_write)
{
    in_small_thread("write", write_files, 16384);
    show_path("f", in_d("f"));
}

static void *list_files(void *unused)
{
    char buffer[1000];
    int fd = open(in_r("many"), O_RDONLY);
    long all = 0, got;
    while ((got = getdents64(fd, buffer, sizeof(buffer))) > 0) {
        all += got;
    }
    close(fd);
    return (void *) (long) (all > 5000);
}

CASE(threads_with_16_kib_list) { in_small_thread("list", list_files, 16384); }

static void on_small_stack(int number)
{
    char text[8] = {0};
    int fd = open(in_r("small"), O_RDONLY);
    read(fd, text, 5);
    close(fd);
    write(1, text, 5);
    write(1, "\n", 1);
}

CASE(handler_on_a_small_alternate_stack)
{
    static char stack[16384];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_handler = on_small_stack, .sa_flags = SA_ONSTACK};
    OK(sigaltstack(&alternate, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    raise(SIGUSR1);
    SHOW("done");
}

static sem_t started;

static void *read_until_cancelled(void *unused)
{
    static char room[200003];
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
    sem_post(&started);
    for (;;) {
        int fd = open(in_r("mid.bin"), O_RDONLY);
        read(fd, room, sizeof(room));
        close(fd);
        pthread_testcancel();
    }
}

static void cancel_one(void)
{
    pthread_t thread;
    void *result;
    sem_init(&started, 0, 0);
    OK(pthread_create(&thread, NULL, read_until_cancelled, NULL) == 0);
    sem_wait(&started);
    usleep(2000);
    TELL_CODE(pthread_cancel(thread));
    OK(pthread_join(thread, &result) == 0);
    SHOW("cancelled %d", result == PTHREAD_CANCELED);
}

CASE(cancelled_readers)
{
    for (int i = 0; i < 10; i++) {
        cancel_one();
    }
    show_path("reads on", in_r("small"));
}

static void *read_asynchronously(void *unused)
{
    static char room[200003];
    int fd = open(in_r("mid.bin"), O_RDONLY);
    sem_post(&started);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        pread(fd, room, sizeof(room), 0);
    }
}

CASE(asynchronous_cancellation_in_a_read)
{
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        void *result;
        sem_init(&started, 0, 0);
        OK(pthread_create(&thread, NULL, read_asynchronously, NULL) == 0);
        sem_wait(&started);
        usleep(1000);
        pthread_cancel(thread);
        OK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    show_path("reads on", in_r("small"));
}

static sigjmp_buf escape;
static volatile int jumps;

static void jump(int number)
{
    siglongjmp(escape, ++jumps);
}

CASE(siglongjmp_out_of_reads)
{
    static char room[2 << 20];
    struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
    signal(SIGALRM, jump);
    int fd = reader("big.bin");
    if (sigsetjmp(escape, 1) < 50) {
        setitimer(ITIMER_REAL, &often, NULL);
        for (;;) {
            pread(fd, room, sizeof(room), 0);
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    SHOW("jumped %d", jumps >= 50);
    TELL(pread(fd, room, sizeof(room), 0));
    SHOW("%lx", sum(room, sizeof(room)));
    show_path("reads on", in_r("small"));
    put(in_d("f"), "written");
}

CASE(siglongjmp_out_of_opens)
{
    struct itimerval often = {{0, 300}, {0, 300}}, never = {0};
    signal(SIGALRM, jump);
    if (sigsetjmp(escape, 1) < 50) {
        setitimer(ITIMER_REAL, &often, NULL);
        for (;;) {
            close(open(in_r("to_dir/deep/leaf"), O_RDONLY));
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    show_path("reads on", in_r("small"));
    IN_CHILD("child", show_path("child", in_r("small")));
}

enum { HANDLED_ENOUGH = 100 };
static volatile int handled, bad;

/* Ends the alarms when there were enough: on a busy machine one may be due as soon as the last
 * was handled, and what it interrupts would never go on. */
static void reads_in_handler(int number)
{
    struct itimerval never = {0};
    char text[8] = {0};
    int saved = errno, fd = open(in_r("small"), O_RDONLY);
    struct stat status;
    bad += read(fd, text, 5) != 5 || strcmp(text, "hello") != 0;
    bad += fstat(fd, &status) != 0 || status.st_size != 12;
    bad += close(fd) != 0;
    if (++handled >= HANDLED_ENOUGH)
        setitimer(ITIMER_REAL, &never, NULL);
    errno = saved;
}

CASE(handlers_read_during_reads)
{
    static char room[200003];
    struct itimerval often = {{0, 200}, {0, 200}}, never = {0};
    char *path = strdup(in_r("mid.bin")); /* the handler uses in_r, too */
    int wrong = 0;
    signal(SIGALRM, reads_in_handler);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 20000 && handled < HANDLED_ENOUGH; i++) {
        int fd = open(path, O_RDONLY);
        ssize_t got = fd < 0 ? -1 : read(fd, room, sizeof(room));
        if (got != sizeof(room)) {
            SHOW("open %d, read %zd: %s", fd, got, got < 0 ? strerrorname_np(errno) : "");
            wrong++;
        }
        close(fd);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    SHOW("wrong %d bad %d some %d", wrong, bad, handled > 0);
}

CASE(handlers_read_during_forks)
{
    struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
    signal(SIGALRM, reads_in_handler);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            int fd = open(in_r("small"), O_RDONLY);
            _exit(fd < 0);
        }
        int status = -1;
        while (waitpid(child, &status, 0) < 0) {
        }
        bad += status != 0;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    SHOW("bad %d", bad);
}

static void *keep_reading(void *stop)
{
    char room[5000];
    while (!*(volatile int *) stop) {
        int fd = open(in_r("lines"), O_RDONLY);
        read(fd, room, sizeof(room));
        close(fd);
    }
    return NULL;
}

CASE(forks_beside_reading_threads)
{
    static volatile int stop;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        OK(pthread_create(&threads[i], NULL, keep_reading, (void *) &stop) == 0);
    }
    int wrong = 0;
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct stat status;
            int fd = open(in_r("small"), O_RDONLY);
            put(in_d("f"), "x");
            _exit(fd < 0 || stat(in_r("x"), &status) != 0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    stop = 1;
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    SHOW("wrong %d", wrong);
}

static ucontext_t here, there;

static void in_context(void)
{
    show_path("in a context", in_r("small"));
}

CASE(contexts_of_the_program)
{
    static char stack[65536];
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof(stack);
    there.uc_link = &here;
    makecontext(&there, in_context, 0);
    swapcontext(&here, &there);
    SHOW("back");
}
