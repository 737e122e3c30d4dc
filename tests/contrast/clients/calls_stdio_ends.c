/* Streams that are shared and that end: locks, flushes, forks, threads, closing. */
#include "calls_stdio.h"

#include <pthread.h>
#include <stdio_ext.h>

CASE(locking_and_extensions)
{
    FILE *file = fopen(in_r("lines"), "r");
    flockfile(file);
    TELL(getc_unlocked(file));
    funlockfile(file);
    TELL(ftrylockfile(file));
    funlockfile(file);
    SHOW("%zu %d %d", __fpending(file), __freading(file), __fwriting(file));
    __fpurge(file);
    SHOW("purged %d", fgetc(file) != EOF);
    SHOW("%d", __flbf(file));
    TELL(fileno_unlocked(file) > 2 ? 0 : -1);
    TELL(feof_unlocked(file));
    TELL(ferror_unlocked(file));
}

CASE(fflush_of_all)
{
    FILE *file = fopen(in_d("f"), "w"), *input = fopen(in_r("lines"), "r");
    OK(fputs("buffered", file) >= 0 && fgetc(input) == 'l');
    TELL(fflush(NULL));
    TELL(fclose(file));
    show_path("f", in_d("f"));
    TELL(fgetc(input));
}

CASE(flushed_at_exit)
{
    for (int how = 0; how < 3; how++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            FILE *file = fopen(in_d("f"), "w");
            fprintf(file, "left by %d", how);
            how == 0 ? exit(0) : how == 1 ? _exit(0) : quick_exit(0);
        }
        show_end("child", child);
        show_path("f", in_d("f"));
    }
}

CASE(fclose_after_fork)
{
    FILE *file = fopen(in_d("f"), "w"), *input = fopen(in_r("lines"), "r");
    OK(fputs("once\n", file) >= 0 && fflush(file) == 0);
    OK(fgetc(input) == 'l');
    IN_CHILD("child", TELL(fclose(input)); OK(fputs("by the child\n", file) >= 0); TELL(fclose(file)));
    OK(fputs("by the parent\n", file) >= 0);
    TELL(fclose(file));
    show_path("f", in_d("f"));
    char line[100];
    SHOW("input %s", fgets(line, sizeof(line), input) != NULL ? "reads on" : "ended");
}

CASE(double_buffers_after_fork)
{
    FILE *file = fopen(in_d("f"), "w");
    OK(fputs("twice\n", file) >= 0);
    pid_t child = fork();
    if (child == 0) {
        fclose(file);
        _exit(0);
    }
    show_end("child", child);
    TELL(fclose(file));
    show_path("f", in_d("f"));
}

static void *read_lines(void *given)
{
    char line[100];
    long count = 0;
    while (fgets(line, sizeof(line), (FILE *) given) != NULL) {
        count += strlen(line) == 23;
    }
    return (void *) count;
}

CASE(threads_share_a_stream)
{
    pthread_t threads[4];
    long all = 0;
    FILE *file = fopen(in_r("lines"), "r");
    for (int i = 0; i < 4; i++) {
        OK(pthread_create(&threads[i], NULL, read_lines, file) == 0);
    }
    for (int i = 0; i < 4; i++) {
        void *count;
        OK(pthread_join(threads[i], &count) == 0);
        all += (long) count;
    }
    SHOW("%ld", all);
}

CASE(many_streams)
{
    FILE *files[200];
    int wrong = 0;
    for (int i = 0; i < 200; i++) {
        char name[40];
        snprintf(name, sizeof(name), "many/f%04d", i);
        files[i] = fopen(in_r(name), "r");
    }
    for (int i = 199; i >= 0; i--) {
        int number = -1;
        wrong += fscanf(files[i], "%d", &number) != 1 || number != i;
        fclose(files[i]);
    }
    SHOW("wrong %d", wrong);
}

CASE(closing_twice_by_number)
{
    FILE *file = fopen(in_r("lines"), "r");
    TELL(close(fileno(file)));
    errno = 0;
    TELL(fgetc(file));
    SHOW("error %d", ferror(file) != 0);
    TELL(fclose(file));
}

CASE(number_reused_below_a_stream)
{
    FILE *file = fopen(in_r("lines"), "r");
    int fd = fileno(file), other = reader("x");
    OK(dup2(other, fd) == fd);
    TELL(fgetc(file));
    TELL(fgetc(file));
}

CASE(fcloseall_closes)
{
    FILE *file = fopen(in_d("f"), "w"), *input = fopen(in_r("small"), "r");
    OK(fputs("text", file) >= 0);
    TELL(fgetc(input));
    int fd = fileno(input), saved = dup(1);
    fcloseall();
    dprintf(saved, "%d\n", fcntl(fd, F_GETFD));
    char text[10] = {0};
    int again = open(in_d("f"), O_RDONLY);
    dprintf(saved, "%zd %s\n", read(again, text, 9), text);
}

CASE(putw_perror_and_psignal)
{
    FILE *file = fopen(in_d("f"), "w");
    TELL(putw(0x41424344, file));
    TELL(fclose(file));
    show_path("f", in_d("f"));
    errno = ENOENT;
    fflush(stdout);
    perror("perror");
}
