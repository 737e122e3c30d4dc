/* Streams: fopen in every mode, freopen, fdopen, buffers, positions, wide characters, and their end. */
#include "calls.h"

#include <locale.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <wchar.h>
#include <wctype.h>

static void show_stream(const char *label, FILE *file)
{
    int code = errno;
    if (file == NULL) {
        SHOW("%s: %s", label, strerrorname_np(code));
        return;
    }
    char text[41] = {0};
    errno = 0;
    size_t got = fread(text, 1, 40, file);
    SHOW("%s: %zu %s eof %d error %d at %ld", label, got, text, feof(file), ferror(file), ftell(file));
    TELL(fclose(file));
}

#define STREAMS(CALL) (errno = 0, show_stream(#CALL, CALL))

CASE(fopen_for_reading)
{
    STREAMS(fopen(in_r("small"), "r"));
    STREAMS(fopen(in_r("small"), "rb"));
    STREAMS(fopen64(in_r("small"), "r"));
    STREAMS(fopen(in_r("to_dir/inner"), "r"));
    STREAMS(fopen(in_r("empty"), "r"));
    STREAMS(fopen(in_r("none"), "r"));
    STREAMS(fopen(in_r("small/x"), "r"));
    STREAMS(fopen(in_r("loop_a"), "r"));
    STREAMS(fopen("", "r"));
    STREAMS(fopen(in_r("small"), "q"));
    STREAMS(fopen(in_r("small"), ""));
}

CASE(fopen_flag_letters)
{
    const char *modes[] = {"re", "rm", "rme", "rc", "rbe", "rx", "rbmce", "r,ccs=UTF-8"};
    for (int i = 0; i < 8; i++) {
        FILE *file = fopen(in_r("small"), modes[i]);
        if (file == NULL) {
            SHOW("%s: %s", modes[i], strerrorname_np(errno));
            continue;
        }
        SHOW("%s: cloexec %d flags %x", modes[i], fcntl(fileno(file), F_GETFD), fcntl(fileno(file), F_GETFL));
        if (i < 7) {
            STREAMS(file);
        }
    }
}

CASE(fopen_of_a_directory)
{
    FILE *file = fopen(in_r("sub"), "r");
    SHOW("%d", file != NULL);
    errno = 0;
    TELL(fgetc(file));
    SHOW("%d", ferror(file) != 0);
    STREAMS(fopen(in_r("sub"), "w"));
    STREAMS(fopen(in_r("sub"), "a"));
    STREAMS(fopen(in_r("sub"), "r+"));
}

CASE(fopen_for_writing)
{
    const char *modes[] = {"w", "a", "w+", "a+", "r+", "wx", "w+x", "ax", "wbe", "r+e", "wxe"};
    for (int i = 0; i < 11; i++) {
        errno = 0;
        FILE *file = fopen(in_d("f"), modes[i]);
        if (file == NULL) {
            SHOW("%s: %s", modes[i], strerrorname_np(errno));
            continue;
        }
        SHOW("%s: flags %x cloexec %d at %ld", modes[i], fcntl(fileno(file), F_GETFL) & ~0100000,
             fcntl(fileno(file), F_GETFD), ftell(file));
        TELL(fputs("text ", file));
        TELL(ftell(file));
        TELL(fclose(file));
        show_path("now", in_d("f"));
    }
}

CASE(fopen_and_umask)
{
    struct stat status;
    umask(027);
    FILE *file = fopen(in_d("f"), "w");
    OK(fclose(file) == 0 && stat(in_d("f"), &status) == 0);
    SHOW("%o", status.st_mode);
}

CASE(fileno_and_descriptor)
{
    int first = reader("x");
    FILE *file = fopen(in_r("lines"), "r");
    TELL(fileno(file) - first);
    TELL(fgetc(file));
    SHOW("buffered %d", lseek(fileno(file), 0, SEEK_CUR) > 1);
    TELL(fflush(file));
    TELL(lseek(fileno(file), 0, SEEK_CUR));
    TELL(fclose(file));
    TELL(fcntl(first + 1, F_GETFD));
}

CASE(fdopen_forms)
{
    STREAMS(fdopen(reader("small"), "r"));
    STREAMS(fdopen(reader("small"), "rb"));
    STREAMS(fdopen(reader("small"), "w"));
    STREAMS(fdopen(reader("small"), "r+"));
    STREAMS(fdopen(reader("small"), "a"));
    STREAMS(fdopen(-1, "r"));
    STREAMS(fdopen(999, "r"));
    STREAMS(fdopen(reader("small"), "q"));
    int fd = reader("small");
    OK(lseek(fd, 6, SEEK_SET) == 6);
    STREAMS(fdopen(fd, "r"));
    TELL(fcntl(fd, F_GETFD));
}

CASE(fdopen_of_an_output)
{
    int fd = open(in_d("f"), O_RDWR | O_CREAT, 0644);
    FILE *file = fdopen(fd, "w+");
    TELL(fputs("through a stream", file));
    TELL(fseek(file, 8, SEEK_SET));
    STREAMS(file);
    show_path("f", in_d("f"));
}

CASE(freopen_forms)
{
    FILE *file = fopen(in_r("lines"), "r");
    TELL(fgetc(file));
    int fd = fileno(file);
    file = freopen(in_r("small"), "r", file);
    TELL(fileno(file) - fd);
    file = freopen(in_r("none"), "r", file);
    SHOW("%d", file == NULL);
    file = fopen(in_r("small"), "r");
    file = freopen(in_d("new"), "w", file);
    TELL(fputs("now an output", file));
    file = freopen(in_r("x"), "r", file);
    show_path("new", in_d("new"));
    STREAMS(file);
}

CASE(freopen_of_standard_streams)
{
    char line[100];
    SHOW("%d", freopen(in_r("lines"), "r", stdin) == stdin);
    TELL(fileno(stdin));
    SHOW("%s", fgets(line, sizeof(line), stdin));
    SHOW("%d", scanf("%99s", line));
    SHOW("%s", line);
    int saved = dup(1);
    OK(freopen(in_d("out"), "w", stdout) == stdout);
    printf("to the file\n");
    fflush(stdout);
    OK(dup2(saved, 1) == 1);
    show_path("out", in_d("out"));
}

CASE(freopen_without_a_path)
{
    FILE *file = fopen(in_d("f"), "w");
    OK(fputs("text", file) >= 0);
    file = freopen(NULL, "a", file);
    TELL_POINTER(file);
    if (file != NULL) {
        OK(fputs(" more", file) >= 0);
        TELL(fclose(file));
    }
    show_path("f", in_d("f"));
}

CASE(getline_forms)
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(in_r("no_newline"), "r");
    TELL(getline(&line, &room, file));
    SHOW("%s", line);
    TELL(getline(&line, &room, file));
    SHOW("%s", line);
    TELL(getline(&line, &room, file));
    SHOW("%d", feof(file));
    TELL(getline(NULL, &room, file));
    rewind(file);
    long all = 0, count = 0;
    file = fopen(in_r("lines"), "r");
    for (ssize_t got; (got = getline(&line, &room, file)) > 0; count++) {
        all += got;
    }
    SHOW("%ld %ld", count, all);
}

CASE(getdelim_forms)
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(in_r("fields"), "r");
    for (ssize_t got; (got = getdelim(&line, &room, ',', file)) > 0;) {
        SHOW("%zd %s", got, line);
    }
    rewind(file);
    TELL(getdelim(&line, &room, EOF, file));
    rewind(file);
    TELL(getdelim(&line, &room, '\0', file));
}

CASE(fgets_and_getc)
{
    char line[10];
    FILE *file = fopen(in_r("fields"), "r");
    while (fgets(line, sizeof(line), file) != NULL) {
        SHOW("<%s>", line);
    }
    rewind(file);
    SHOW("%c%c%c%c", fgetc(file), getc(file), getc_unlocked(file), fgetc_unlocked(file));
    TELL(getw(file));
    SHOW("%d", fgets(line, 1, file) == line);
    SHOW("%zu", fread_unlocked(line, 1, 5, file));
}

CASE(fscanf_forms)
{
    int number, count = 0;
    double real, total = 0;
    char key[32];
    FILE *file = fopen(in_r("numbers"), "r");
    while (fscanf(file, "%d %lf %31s", &number, &real, key) == 3) {
        total += real + number;
        count++;
    }
    SHOW("%d %.3f %s %d", count, total, key, feof(file));
    rewind(file);
    TELL(fscanf(file, "%d nonsense", &number));
    SHOW("%c", fgetc(file));
}

CASE(seeking_streams)
{
    FILE *file = fopen(in_r("mid.bin"), "rb");
    off_t places[] = {0, 4095, 100000, 200002, 200003, 1000000};
    for (int i = 0; i < 6; i++) {
        int code = fseeko(file, places[i], SEEK_SET);
        SHOW("%ld: %d %d at %ld", (long) places[i], code, fgetc(file), (long) ftello(file));
    }
    TELL(fseek(file, -3, SEEK_END));
    TELL(fgetc(file));
    TELL(fseek(file, -2, SEEK_CUR));
    TELL(ftell(file));
    TELL(fseek(file, -1, SEEK_SET));
    TELL(fseek(file, 0, 77));
    TELL(fseeko64(file, 5000000000L, SEEK_SET));
    TELL(ftello64(file));
    TELL(fgetc(file));
    fpos_t place;
    rewind(file);
    TELL(fgetc(file));
    TELL(fgetpos(file, &place));
    TELL(fseek(file, 5000, SEEK_SET));
    TELL(fsetpos(file, &place));
    TELL(ftell(file));
}

CASE(seeking_while_buffered)
{
    FILE *file = fopen(in_r("lines"), "r");
    char line[100];
    for (int i = 0; i < 2000; i += 7) {
        OK(fseek(file, i * 23L, SEEK_SET) == 0);
        OK(fgets(line, sizeof(line), file) != NULL && atoi(line + 5) == i);
    }
    SHOW("%s", line);
    TELL(ftell(file));
}

CASE(ungetc_forms)
{
    FILE *file = fopen(in_r("small"), "r");
    TELL(ungetc('X', file));
    TELL(fgetc(file));
    TELL(fgetc(file));
    TELL(ungetc('Y', file));
    TELL(ftell(file));
    TELL(ungetc(EOF, file));
    TELL(fgetc(file));
    TELL(ungetc('Z', file));
    TELL(fseek(file, 0, SEEK_CUR));
    TELL(fgetc(file));
    while (fgetc(file) != EOF) {
    }
    TELL(ungetc('e', file));
    SHOW("%d", feof(file));
    TELL(fgetc(file));
}

CASE(setvbuf_forms)
{
    static char room[100000];
    FILE *file = fopen(in_r("lines"), "r");
    TELL(setvbuf(file, NULL, _IONBF, 0));
    TELL(fgetc(file));
    TELL(lseek(fileno(file), 0, SEEK_CUR));
    file = fopen(in_r("lines"), "r");
    TELL(setvbuf(file, room, _IOFBF, sizeof(room)));
    TELL(fgetc(file));
    SHOW("%lx", sum(room, 60000));
    file = fopen(in_r("lines"), "r");
    TELL(setvbuf(file, NULL, _IOLBF, 0));
    TELL(fgetc(file));
    file = fopen(in_r("lines"), "r");
    setbuf(file, NULL);
    TELL(fgetc(file));
    setbuffer(file = fopen(in_r("lines"), "r"), room, 10);
    TELL(fgetc(file));
    setlinebuf(file);
    SHOW("%zu %d %d", __fbufsize(file), __freadable(file), __fwritable(file));
    TELL(setvbuf(file, NULL, 77, 0));
}

CASE(large_reads)
{
    static char room[3 << 20];
    FILE *file = fopen(in_r("big.bin"), "rb");
    TELL(fread(room, 1, sizeof(room), file));
    SHOW("%lx eof %d", sum(room, 2 << 20), feof(file));
    rewind(file);
    TELL(fread(room, 1000, 3000, file));
    TELL(ftell(file));
    rewind(file);
    size_t all = 0, got;
    while ((got = fread(room, 1, 777, file)) > 0) {
        all += got;
    }
    SHOW("%zu", all);
}

CASE(writing_to_a_reader)
{
    FILE *file = fopen(in_r("small"), "r");
    TELL(fputc('x', file));
    SHOW("%d", ferror(file) != 0);
    TELL(fwrite("x", 1, 1, file));
    TELL(fprintf(file, "x"));
    clearerr(file);
    TELL(fgetc(file));
    TELL(fputs("x", file));
    TELL(fflush(file));
    TELL(fclose(file));
}

CASE(reading_from_a_writer)
{
    FILE *file = fopen(in_d("f"), "w");
    TELL(fgetc(file));
    SHOW("%d %s", ferror(file) != 0, strerrorname_np(errno));
    TELL(fclose(file));
}

CASE(read_and_write_streams)
{
    FILE *file = fopen(in_d("f"), "w+");
    OK(fputs("one two three\n", file) >= 0);
    rewind(file);
    char word[10];
    TELL(fscanf(file, "%9s", word));
    OK(fseek(file, 4, SEEK_SET) == 0);
    OK(fputs("TWO", file) >= 0);
    OK(fseek(file, 0, SEEK_SET) == 0);
    STREAMS(file);
}

CASE(append_streams)
{
    put(in_d("f"), "first\n");
    FILE *file = fopen(in_d("f"), "a+");
    TELL(fgetc(file));
    OK(fputs("second\n", file) >= 0);
    rewind(file);
    OK(fputs("third\n", file) >= 0);
    rewind(file);
    STREAMS(file);
}

CASE(fmemopen_and_memory_streams)
{
    char room[] = "in memory", *made = NULL;
    size_t bytes = 0;
    STREAMS(fmemopen(room, sizeof(room) - 1, "r"));
    FILE *file = open_memstream(&made, &bytes), *input = fopen(in_r("small"), "r");
    for (int c; (c = fgetc(input)) != EOF;) {
        fputc(c, file);
    }
    TELL(fclose(file));
    SHOW("%zu %s", bytes, made);
    TELL(fileno(fmemopen(room, 5, "r")));
}

static ssize_t cookie_read(void *cookie, char *to, size_t bytes)
{
    return read(*(int *) cookie, to, bytes);
}

CASE(cookies_of_the_program)
{
    int fd = reader("small");
    cookie_io_functions_t calls = {.read = cookie_read};
    STREAMS(fopencookie(&fd, "r", calls));
}

CASE(wide_characters)
{
    wchar_t line[40], *end;
    setlocale(LC_ALL, "C.UTF-8");
    FILE *file = fopen(in_r("wide"), "r");
    TELL(fwide(file, 0));
    TELL(fgetwc(file));
    TELL(ungetwc(L'ж', file));
    TELL(getwc(file));
    while (fgetws(line, 40, file) != NULL) {
        SHOW("%ls", line);
    }
    TELL(fgetwc(file));
    SHOW("%d", feof(file));
    rewind(file);
    TELL(fwscanf(file, L"%39ls", line));
    SHOW("%ls", line);
}

CASE(wide_positions)
{
    wchar_t line[40];
    setlocale(LC_ALL, "C.UTF-8");
    FILE *file = fopen(in_r("wide"), "r");
    SHOW("%ls", fgetws(line, 40, file));
    TELL(ftell(file));
    fpos_t place;
    TELL(fgetpos(file, &place));
    SHOW("%ls", fgetws(line, 40, file));
    TELL(fsetpos(file, &place));
    SHOW("%ls", fgetws(line, 40, file));
    TELL(fseek(file, 0, SEEK_SET));
    SHOW("%ls", fgetws(line, 40, file));
}

CASE(wide_bad_bytes)
{
    setlocale(LC_ALL, "C.UTF-8");
    FILE *file = fopen(in_r("latin1"), "r");
    for (int i = 0; i < 4; i++) {
        errno = 0;
        TELL(fgetwc(file));
    }
    SHOW("%d", ferror(file) != 0);
}

CASE(coded_character_sets)
{
    wchar_t line[40];
    setlocale(LC_ALL, "C.UTF-8");
    FILE *file = fopen(in_r("latin1"), "r,ccs=ISO-8859-1");
    TELL_POINTER(file);
    if (file != NULL) {
        SHOW("%ls", fgetws(line, 40, file));
    }
    file = fopen(in_r("utf16"), "r,ccs=UTF-16LE");
    TELL_POINTER(file);
    if (file != NULL) {
        SHOW("%ls", fgetws(line, 40, file));
    }
    TELL_POINTER(fopen(in_r("wide"), "r,ccs=NONSENSE"));
}

CASE(wide_output)
{
    setlocale(LC_ALL, "C.UTF-8");
    FILE *file = fopen(in_d("f"), "w");
    TELL(fputws(L"жизнь ", file));
    TELL(fwprintf(file, L"%d %ls", 7, L"ü"));
    TELL(fputc('x', file));
    TELL(fclose(file));
    show_path("f", in_d("f"));
}

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

CASE(tmpfile_and_popen)
{
    FILE *file = tmpfile();
    OK(fputs("temporary", file) >= 0);
    rewind(file);
    STREAMS(file);
    char command[PATH_MAX], line[100];
    snprintf(command, sizeof(command), "cat %s; echo done > %s", in_r("small"), in_d("f"));
    file = popen(command, "r");
    SHOW("%s", fgets(line, sizeof(line), file));
    TELL(pclose(file));
    show_path("f", in_d("f"));
    snprintf(command, sizeof(command), "cat > %s", in_d("g"));
    file = popen(command, "w");
    OK(fputs("through a pipe", file) >= 0);
    TELL(pclose(file));
    show_path("g", in_d("g"));
}

CASE(mixed_with_raw_reads)
{
    FILE *file = fopen(in_r("lines"), "r");
    char line[100];
    SHOW("%s", fgets(line, sizeof(line), file));
    TELL(lseek(fileno(file), 0, SEEK_SET));
    TELL(fseek(file, 0, SEEK_SET));
    SHOW("%s", fgets(line, sizeof(line), file));
    TELL(fflush(file));
    show_next("raw", fileno(file));
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
