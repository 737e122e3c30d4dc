/*
 * One side of the comparison: reads requests from standard input, a line each, and answers each
 * with a line.
 *
 *     reader DIR SEED
 *     OPERATION KIND THREADS WINDOW_NS   ->   UNITS START_NS END_NS SUM
 *
 * KIND is a folder of DIR whose folders hold the files. Every thread goes through all files in a
 * random order of its own, again and again until WINDOW_NS have passed; 0 means once. UNITS: the
 * operations of all threads between START_NS, when the first began, and END_NS, when the last
 * ended, by the clock that all processes share (CLOCK_MONOTONIC). SUM: for `sum`, depends on the
 * content. With "child-" before an operation, a child forked for it goes through all files once.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "operations.h"

enum { THREADS_MAX = 64 };

/* Shared by all threads of a request, which begin together and end at the same time. */
struct round {
    pthread_barrier_t start;
    uint64_t until_ns;
};

/* The request to one thread, and its answer. */
struct task {
    struct worker worker;
    const struct operation *operation;
    const struct list *list;
    uint64_t window_ns;
    uint64_t units;
    uint64_t start_ns;
    uint64_t end_ns;
    struct round *round;
};

static const char *top;
static struct task tasks[THREADS_MAX];
static uint64_t random_state = 88172645463325252u;

/* Goes through the paths until the window is over; exactly once if the window is 0. */
static void go_through(struct task *task, char *const *paths)
{
    const struct operation *operation = task->operation;
    size_t count = task->list->count, at = 0;
    uint64_t start = now_ns(), now = start;
    for (;;) {
        for (unsigned i = 0; i < operation->stride && at < count; i++)
            task->units += operation->run(&task->worker, paths[at++]);
        now = now_ns();
        if (task->window_ns == 0 ? at == count : now >= task->round->until_ns)
            break;
        at = at == count ? 0 : at;
    }
    task->start_ns = start;
    task->end_ns = now;
}

static void prepare_task(struct task *task)
{
    if (task->worker.buffer == NULL)
        task->worker.buffer = aligned_alloc(PAGE_BYTES, FILE_BYTES_MAX + PAGE_BYTES);
    memset(task->worker.buffer, 1, FILE_BYTES_MAX + PAGE_BYTES);
    task->worker.random = next_random(&random_state);
    task->worker.sum = task->units = 0;
    if (task->operation->keeps_open)
        open_files(&task->worker, task->list);
}

static void *run_task(void *argument)
{
    struct task *task = argument;
    uint64_t state = task->worker.random;
    char **paths = shuffled(task->list, &state);
    pthread_barrier_wait(&task->round->start);
    go_through(task, paths);
    free(paths);
    return NULL;
}

static void run_threads(unsigned threads)
{
    pthread_t handles[THREADS_MAX];
    struct round round;
    pthread_barrier_init(&round.start, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        tasks[i].round = &round;
        prepare_task(&tasks[i]);
    }
    for (unsigned i = 1; i < threads; i++)
        if ((errno = pthread_create(&handles[i], NULL, run_task, &tasks[i])) != 0)
            fail("pthread_create");
    round.until_ns = now_ns() + tasks[0].window_ns; /* no thread has passed the barrier yet */
    run_task(&tasks[0]);
    for (unsigned i = 1; i < threads; i++)
        pthread_join(handles[i], NULL);
    for (unsigned i = 0; i < threads; i++)
        close_files(&tasks[i].worker);
    pthread_barrier_destroy(&round.start);
}

/* Runs the request in a child, which sends the answer of its only task back through a pipe. */
static void run_child(void)
{
    int ends[2], status;
    if (pipe(ends) != 0)
        fail("pipe");
    pid_t child = fork();
    if (child == 0) {
        run_threads(1);
        _exit(write(ends[1], &tasks[0], sizeof(tasks[0])) != sizeof(tasks[0]));
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &tasks[0], sizeof(tasks[0])) != sizeof(tasks[0]))
        fail("child");
    close(ends[0]);
    waitpid(child, &status, 0);
}

static const struct list *operand(const struct operation *operation, struct kind *kind)
{
    if (operation->operand == ON_FOLDERS)
        return &kind->folders;
    return operation->operand == ON_MISSING ? &kind->missing : &kind->files;
}

static void answer(unsigned threads)
{
    uint64_t units = 0, sum = 0, start_ns = UINT64_MAX, end_ns = 0;
    for (unsigned i = 0; i < threads; i++) {
        units += tasks[i].units;
        sum += tasks[i].worker.sum;
        start_ns = tasks[i].start_ns < start_ns ? tasks[i].start_ns : start_ns;
        end_ns = tasks[i].end_ns > end_ns ? tasks[i].end_ns : end_ns;
    }
    printf("%llu %llu %llu %llu\n", (unsigned long long)units, (unsigned long long)start_ns,
           (unsigned long long)end_ns, (unsigned long long)sum);
    fflush(stdout);
}

static void request(const char *name, const char *kind_name, unsigned threads, uint64_t window_ns)
{
    int in_child = strncmp(name, "child-", 6) == 0;
    const struct operation *operation = find_operation(name + (in_child ? 6 : 0));
    struct kind *kind = find_kind(top, kind_name);
    if (operation == NULL || threads == 0 || threads > THREADS_MAX) {
        errno = EINVAL;
        fail(name);
    }
    for (unsigned i = 0; i < threads; i++) {
        tasks[i].operation = operation;
        tasks[i].list = operand(operation, kind);
        tasks[i].window_ns = in_child ? 0 : window_ns;
    }
    if (in_child)
        run_child();
    else
        run_threads(threads);
    answer(threads);
}

int main(int argc, char **argv)
{
    char name[32], kind[64];
    unsigned threads;
    unsigned long long window_ns;
    if (argc != 3)
        return 2;
    top = argv[1];
    random_state += (uint64_t)atoi(argv[2]) * 1000003u;
    while (scanf("%31s %63s %u %llu", name, kind, &threads, &window_ns) == 4)
        request(name, kind, threads, window_ns);
    return 0;
}
