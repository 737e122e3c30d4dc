/* What streams give and take: lines, buffers, positions, wide characters. */
#include "calls_stdio.h"

#include <locale.h>
#include <stdio_ext.h>
#include <wchar.h>

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

CASE(wide_characters)
{
    wchar_t line[40], *end;
    setlocale(LC_ALL, "C.UTF-8");
    FILE *file = fopen(in_r("wide"), "r");
    TELL(fgetwc(file));
    TELL(ungetwc(L'ж', file));
    TELL(getwc(file));
    while (fgetws(line, 40, file) != NULL) {
        SHOW("%ls", line);
    }
    TELL(fgetwc(file));
    SHOW("%d", feof(file));
    rewind(file);
    TELL(fgetwc(file));
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
