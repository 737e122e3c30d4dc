/* stdio on the tree: what a cookie stream must do as a descriptor stream does. */
#include "client.h"

#include <locale.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <sys/wait.h>
#include <wchar.h>

static FILE *opened(const char *name, const char *mode)
{
    FILE *file = fopen(in_tree(name), mode);
    OK(file != NULL);
    return file;
}

CASE(fread_whole_and_parts)
{
    static char buffer[4 << 20];
    const char *names[] = {"bin/big.bin", "bin/mid.bin", "bin/page.bin", "text/empty.txt", NULL};
    for (int i = 0; names[i] != NULL; i++) {
        FILE *file = opened(names[i], "rb");
        size_t bytes = fread(buffer, 1, 1, file);
        bytes += fread(buffer + bytes, 1, 4095, file);
        bytes += fread(buffer + bytes, 1, sizeof(buffer) - bytes, file);
        SHOW("%s %zu %lx eof %d error %d tell %ld", names[i], bytes, sum(buffer, bytes), feof(file) != 0,
             ferror(file) != 0, ftell(file));
        fclose(file);
    }
}

CASE(fread_of_records)
{
    unsigned values[1000];
    FILE *file = fopen64(in_tree("bin/pattern.bin"), "r");
    fseeko(file, 4 * 99500, SEEK_SET);
    SHOW("items %zu", fread(values, sizeof(unsigned), 1000, file));
    SHOW("first %u last %u", values[0], values[499]);
}

CASE(fgets_getline_getdelim)
{
    char line[100], *grown = NULL;
    size_t capacity = 0;
    FILE *file = opened("text/lines.txt", "r");
    SHOW("fgets %s", fgets(line, sizeof(line), file));
    SHOW("short %s", fgets(line, 5, file));
    ssize_t bytes = getline(&grown, &capacity, file);
    SHOW("getline %zd %s", bytes, grown);
    bytes = getdelim(&grown, &capacity, 'f', file);
    SHOW("getdelim %zd %s", bytes, grown);
    int lines = 0;
    while (getline(&grown, &capacity, file) >= 0) {
        lines++;
    }
    SHOW("lines %d eof %d last %s", lines, feof(file) != 0, grown);
}

CASE(fscanf)
{
    int number;
    double ratio;
    char key[20];
    FILE *file = opened("text/numbers.txt", "r");
    for (int i = 0; fscanf(file, "%d %lf %19s", &number, &ratio, key) == 3; i++) {
        if (i % 10 == 0) {
            SHOW("%d %f %s", number, ratio, key);
        }
    }
    SHOW("eof %d tell %ld", feof(file) != 0, ftell(file));
}

CASE(seek_and_tell)
{
    FILE *file = opened("bin/mid.bin", "rb");
    SHOW("end %d", fseek(file, 0, SEEK_END));
    SHOW("tell %ld", ftell(file));
    SHOW("back %d", fseeko(file, -100, SEEK_CUR));
    SHOW("tell %lld", (long long) ftello(file));
    SHOW("byte %d", getc(file));
    SHOW("64 %d", fseeko64(file, 12345, SEEK_SET));
    SHOW("tell %lld", (long long) ftello64(file));
    SHOW("byte %d", fgetc(file));
    fpos_t position;
    fgetpos(file, &position);
    int before = getc(file);
    fseek(file, 7, SEEK_SET);
    fsetpos(file, &position);
    SHOW("fsetpos %d", before == getc(file));
    rewind(file);
    SHOW("rewind %ld", ftell(file));
    FAILS(EINVAL, fseek(file, -1, SEEK_SET));
    SHOW("beyond %d", fseek(file, 1000000, SEEK_SET));
    SHOW("byte %d", getc(file));
    SHOW("eof %d", feof(file) != 0);
}

CASE(ungetc_and_peek)
{
    FILE *file = opened("text/hello.txt", "r");
    int first = getc(file);
    ungetc(first, file);
    SHOW("again %c", getc(file));
    SHOW("tell %ld", ftell(file));
    ungetc('Z', file);
    SHOW("pushed %c", getc(file));
    SHOW("then %c", getc(file));
}

CASE(setvbuf_modes)
{
    static char own[64];
    int modes[] = {_IONBF, _IOLBF, _IOFBF};
    for (int i = 0; i < 3; i++) {
        char line[40];
        FILE *file = opened("text/lines.txt", "r");
        setvbuf(file, i == 2 ? own : NULL, modes[i], i == 2 ? sizeof(own) : 0);
        fgets(line, sizeof(line), file);
        fgets(line, sizeof(line), file);
        SHOW("mode %d: %s offset %lld", i, line, i == 0 ? (long long) lseek(fileno(file), 0, SEEK_CUR) : -1LL);
        fclose(file);
    }
}

CASE(fileno_reads_the_same_file)
{
    char buffer[20] = {0};
    struct stat status;
    FILE *file = opened("text/hello.txt", "r");
    int fd = fileno(file);
    SHOW("fd %d", fd >= 3 && fd < 10);
    OK(fstat(fd, &status) == 0);
    show_stat("fstat", &status);
    SHOW("pread %zd %s", pread(fd, buffer, 5, 6), buffer);
    SHOW("unlocked %d", fileno_unlocked(file) == fd);
    fclose(file);
    FAILS(EBADF, read(fd, buffer, 1));
}

CASE(fdopen_takes_the_offset)
{
    char line[40];
    int fd = open(in_tree("text/lines.txt"), O_RDONLY);
    lseek(fd, 24, SEEK_SET);
    FILE *file = fdopen(fd, "r");
    SHOW("line %s", fgets(line, sizeof(line), file));
    SHOW("tell %ld", ftell(file));
    fclose(file);
    FAILS(EBADF, fcntl(fd, F_GETFD));
}

CASE(fdopen_refuses_wrong_modes)
{
    int fd = open(in_tree("text/hello.txt"), O_RDONLY);
    FAILS(EINVAL, fdopen(fd, "w"));
    FAILS(EINVAL, fdopen(fd, "r+"));
    FAILS(EINVAL, fdopen(fd, "z"));
    FAILS(EBADF, fdopen(1234, "r"));
}

CASE(freopen_of_stdin_and_back)
{
    char line[40];
    OK(freopen(in_tree("text/lines.txt"), "r", stdin) != NULL);
    SHOW("stdin %s", fgets(line, sizeof(line), stdin));
    SHOW("fd %d", fileno(stdin));
    OK(freopen(in_tree("text/hello.txt"), "r", stdin) != NULL);
    SHOW("again %s", fgets(line, sizeof(line), stdin));
    OK(freopen("/etc/passwd", "r", stdin) != NULL);
    SHOW("outside %d", fgets(line, sizeof(line), stdin) != NULL);
    FAILS(ENOENT, freopen(in_tree("none"), "r", stdin));
}

CASE(freopen_of_a_stream_on_the_tree)
{
    char line[40];
    FILE *file = opened("text/hello.txt", "r");
    file = freopen(in_tree("text/lines.txt"), "r", file);
    SHOW("first %s", fgets(line, sizeof(line), file));
    file = freopen64(join("W", "out"), "w+", file);
    SHOW("write %d", fputs("written\n", file) >= 0);
    fclose(file);
}

CASE(fopen_failures)
{
    FAILS(ENOENT, fopen(in_tree("none"), "r"));
    FAILS(ENOTDIR, fopen(in_tree("text/x/y"), "r"));
    FAILS(EINVAL, fopen(in_tree("text/x"), "q"));
    FAILS(ELOOP, fopen(in_tree("links/loop_a"), "r"));
    FAILS(EEXIST, fopen(in_tree("text/x"), "wx"));
    FILE *directory = fopen(in_tree("text"), "r");
    SHOW("a directory opens %d", directory != NULL);
    errno = 0;
    SHOW("and fails to read %d", getc(directory));
    SHOW("errno %s", strerrorname_np(errno));
}

CASE(fopen_modes)
{
    const char *modes[] = {"r", "rb", "rt", "re", "rm", "rbe", "rc", NULL};
    for (int i = 0; modes[i] != NULL; i++) {
        FILE *file = opened("text/hello.txt", modes[i]);
        SHOW("%s %c cloexec %d", modes[i], getc(file), fcntl(fileno(file), F_GETFD));
        fclose(file);
    }
}

CASE(writing_to_a_reader_fails)
{
    FILE *file = opened("text/hello.txt", "r");
    setvbuf(file, NULL, _IONBF, 0);
    errno = 0;
    SHOW("fputc %d", fputc('x', file));
    SHOW("errno %s error %d", strerrorname_np(errno), ferror(file) != 0);
    clearerr(file);
    SHOW("reads on %c", getc(file));
}

CASE(wide_reading)
{
    wchar_t line[64];
    OK(setlocale(LC_ALL, "C.UTF-8") != NULL);
    FILE *file = opened("text/wide.txt", "r");
    while (fgetws(line, 64, file) != NULL) {
        SHOW("fgetws %ls", line);
    }
    fclose(file);
    file = opened("text/wide.txt", "r");
    wint_t first = fgetwc(file), second = getwc(file);
    ungetwc(second, file);
    SHOW("fgetwc %lc %lc", first, second);
    SHOW("pushed back %lc", fgetwc(file));
}

CASE(wide_reading_with_ccs)
{
    wchar_t line[64];
    setlocale(LC_ALL, "C.UTF-8");
    FILE *file = fopen(in_tree("text/latin1.txt"), "r,ccs=ISO-8859-1");
    SHOW("opened %d", file != NULL);
    SHOW("line %ls", file != NULL ? fgetws(line, 64, file) : L"");
}

CASE(wide_bad_bytes_eilseq)
{
    wchar_t line[64];
    setlocale(LC_ALL, "C.UTF-8");
    FILE *file = opened("text/latin1.txt", "r");
    errno = 0;
    SHOW("null %d", fgetws(line, 64, file) == NULL);
    SHOW("errno %s", strerrorname_np(errno));
}

CASE(unlocked_and_extended_calls)
{
    char buffer[64];
    FILE *file = opened("text/hello.txt", "r");
    __fsetlocking(file, FSETLOCKING_BYCALLER);
    SHOW("getc_unlocked %c", getc_unlocked(file));
    SHOW("fread_unlocked %zu", fread_unlocked(buffer, 1, 4, file));
    SHOW("pending %d readable %d writable %d", __freading(file) != 0, __freadable(file) != 0, __fwritable(file) != 0);
    __fpurge(file);
    fflush(file);
    flockfile(file);
    funlockfile(file);
    SHOW("fcloseall %d", fcloseall());
}

CASE(fflush_of_a_reader_syncs_the_offset)
{
    FILE *file = opened("text/lines.txt", "r");
    getc(file);
    getc(file);
    fflush(file);
    SHOW("offset %lld", (long long) lseek(fileno(file), 0, SEEK_CUR));
}

CASE(fclose_syncs_a_shared_offset)
{
    FILE *file = opened("text/hello.txt", "r"); /* less than any buffer */
    int shared = dup(fileno(file));
    getc(file);
    getc(file);
    fclose(file);
    SHOW("offset %lld", (long long) lseek(shared, 0, SEEK_CUR));
}

CASE(exit_leaves_the_offset_of_stdin)
{
    fflush(stdout);
    int fd = open(in_tree("text/lines.txt"), O_RDONLY);
    dup2(fd, 0);
    if (fork() == 0) {
        char line[40];
        fgets(line, sizeof(line), stdin);
        exit(0);
    }
    int status;
    wait(&status);
    SHOW("offset %lld", (long long) lseek(0, 0, SEEK_CUR));
}

CASE(many_streams)
{
    FILE *files[200];
    for (int i = 0; i < 200; i++) {
        char name[40];
        snprintf(name, sizeof(name), "many/f%05d.dat", i);
        files[i] = opened(name, "r");
    }
    long total = 0;
    for (int i = 0; i < 200; i++) {
        int value;
        total += fscanf(files[i], "%d", &value) == 1 ? value : -100000;
        fclose(files[i]);
    }
    SHOW("total %ld", total);
}

static void *reader(void *argument)
{
    FILE *file = (FILE *) argument;
    char line[64];
    long lines = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        lines += strlen(line) == 24;
    }
    return (void *) lines;
}

CASE(threads_share_one_stream)
{
    FILE *file = opened("text/lines.txt", "r");
    pthread_t threads[4];
    long total = 0;
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, reader, file);
    }
    for (int i = 0; i < 4; i++) {
        void *lines;
        pthread_join(threads[i], &lines);
        total += (long) lines;
    }
    SHOW("lines %ld", total);
}

CASE(popen_reads_the_tree)
{
    char command[PATH_MAX], line[64];
    snprintf(command, sizeof(command), "cat %s", in_tree("text/hello.txt"));
    FILE *pipe = popen(command, "r");
    SHOW("popen %s", fgets(line, sizeof(line), pipe));
    SHOW("status %d", pclose(pipe));
}

CASE(own_files_are_untouched)
{
    char line[64];
    FILE *file = fopen(join("W", "own"), "w+");
    fputs("my line\n", file);
    rewind(file);
    SHOW("line %s", fgets(line, sizeof(line), file));
    fclose(file);
    file = tmpfile();
    fputs("temporary\n", file);
    rewind(file);
    SHOW("line %s", fgets(line, sizeof(line), file));
}
