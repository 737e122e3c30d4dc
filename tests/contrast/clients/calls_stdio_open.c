/* How streams come to be: fopen in every mode, fdopen, freopen, fmemopen, cookies, popen. */
#include "calls_stdio.h"

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
