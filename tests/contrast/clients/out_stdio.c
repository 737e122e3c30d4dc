/* stdio on outputs. D is the case's directory. */
#include "client.h"

#include <wchar.h>
#include <locale.h>
#include <sys/wait.h>

static const char *in_d(const char *name)
{
    return join("D", name);
}

static void show_file(const char *name)
{
    char buffer[200] = {0};
    int fd = open(in_d(name), O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, buffer, sizeof(buffer) - 1);
    SHOW("%s: %zd %s", name, got, fd < 0 ? strerrorname_np(errno) : buffer);
    if (fd >= 0) {
        close(fd);
    }
}

CASE(every_mode)
{
    const char *modes[] = {"w", "a", "r+", "w+", "a+", "wx", "w+x", "we", "wb", "r", "wm", NULL};
    for (int i = 0; modes[i] != NULL; i++) {
        for (int there = 0; there < 2; there++) {
            char buffer[50] = {0};
            unlink(in_d("f"));
            if (there) {
                FILE *file = fopen(in_d("f"), "w");
                fputs("0123456789", file);
                fclose(file);
            }
            errno = 0;
            FILE *file = fopen(in_d("f"), modes[i]);
            SHOW("%s %d: %s", modes[i], there, file ? "open" : strerrorname_np(errno));
            if (file == NULL) {
                continue;
            }
            SHOW("puts %d", fputs("abc", file) >= 0);
            SHOW("at %ld", ftell(file));
            rewind(file);
            SHOW("read %zu %s", fread(buffer, 1, 20, file), buffer);
            SHOW("close %d", fclose(file));
            show_file("f");
        }
    }
    unlink(in_d("f"));
}

CASE(seek_and_size)
{
    FILE *file = fopen(in_d("f"), "w+");
    for (int i = 0; i < 1000; i++) {
        fprintf(file, "line %d\n", i);
    }
    SHOW("at %ld", ftell(file));
    OK(fseek(file, 5, SEEK_SET) == 0);
    fputs("XXX", file);
    OK(fseeko(file, -5, SEEK_END) == 0);
    char line[50];
    SHOW("end %s", fgets(line, sizeof(line), file));
    OK(fflush(file) == 0);
    SHOW("number %d", fileno(file) > 2);
    OK(ftruncate(fileno(file), 20) == 0);
    OK(fclose(file) == 0);
    show_file("f");
}

CASE(buffers)
{
    char own[100];
    FILE *file = fopen(in_d("f"), "w");
    OK(setvbuf(file, own, _IOFBF, sizeof(own)) == 0);
    fputs("buffered ", file);
    struct stat status;
    OK(fstat(fileno(file), &status) == 0);
    SHOW("nothing yet %lld", (long long) status.st_size);
    fflush(file);
    OK(fstat(fileno(file), &status) == 0);
    SHOW("now %lld", (long long) status.st_size);
    fclose(file);
    file = fopen(in_d("g"), "w");
    setbuf(file, NULL);
    fputs("unbuffered", file);
    OK(fstat(fileno(file), &status) == 0);
    SHOW("at once %lld", (long long) status.st_size);
    fclose(file);
}

CASE(freopen_to_a_file)
{
    FILE *file = fopen("/dev/null", "w");
    file = freopen(in_d("f"), "w", file);
    OK(file != NULL);
    fputs("first", file);
    file = freopen(in_d("g"), "w", file);
    OK(file != NULL);
    show_file("f");
    fputs("second", file);
    OK(fclose(file) == 0);
    show_file("g");
    OK(freopen(in_d("f"), "r", stdin) == stdin);
    SHOW("stdin %c", getchar());
    errno = 0;
    SHOW("missing %d %s", freopen(in_d("none/x"), "w", stdin) == NULL, strerrorname_np(errno));
}

CASE(freopen_of_stdout)
{
    fflush(stdout);
    int saved = dup(1);
    OK(freopen(in_d("log"), "w", stdout) == stdout);
    printf("printed into the file %d\n", 1);
    system("echo by a child");
    fflush(stdout);
    dup2(saved, 1);
    show_file("log");
}

CASE(fdopen_of_a_descriptor)
{
    int fd = open(in_d("f"), O_RDWR | O_CREAT, 0644);
    FILE *file = fdopen(fd, "w");
    fputs("by fdopen", file);
    OK(fclose(file) == 0);
    show_file("f");
    file = fdopen(open(in_d("f"), O_RDONLY), "r");
    SHOW("first %c", getc(file));
    fclose(file);
}

CASE(not_closed_at_exit)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        FILE *file = fopen(in_d("f"), "w");
        fputs("flushed by exit", file);
        exit(3);
    }
    OK(waitpid(child, &status, 0) == child);
    SHOW("status %d", WEXITSTATUS(status));
    show_file("f");
}

static FILE *late;

static void at_exit(void)
{
    fputs(" and by atexit", late);
}

CASE(written_by_atexit)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        late = fopen(in_d("f"), "w");
        fputs("main", late);
        atexit(at_exit);
        exit(0);
    }
    OK(waitpid(child, &status, 0) == child);
    show_file("f");
}

CASE(wide_characters)
{
    setlocale(LC_ALL, "C.UTF-8");
    FILE *file = fopen(in_d("f"), "w");
    fwprintf(file, L"wide %ls\n", L"\u00fc\u65e5");
    fclose(file);
    show_file("f");
    file = fopen(in_d("g"), "w,ccs=UTF-8");
    OK(file != NULL);
    fputws(L"\u00fc", file);
    fclose(file);
    show_file("g");
    file = fopen(in_d("f"), "r");
    wchar_t line[50];
    SHOW("read %d", fgetws(line, 50, file) != NULL && line[5] == 0xfc);
    fclose(file);
}

CASE(getline_and_ungetc)
{
    FILE *file = fopen(in_d("f"), "w+");
    fputs("one\ntwo\nthree", file);
    rewind(file);
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0) {
        SHOW("line %s", line);
    }
    SHOW("end %d error %d", feof(file) != 0, ferror(file) != 0);
    fclose(file);
}

CASE(popen_into_a_file)
{
    FILE *pipe = popen("cat > \"$D/f\"", "w");
    fputs("through popen", pipe);
    SHOW("status %d", pclose(pipe));
    show_file("f");
}
