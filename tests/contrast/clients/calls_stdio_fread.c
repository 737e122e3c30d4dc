/* fread of more than a stream's buffer takes, and what other calls find after it. */
#include "calls_stdio.h"

#include <pthread.h>
#include <stdio_ext.h>
#include <stdint.h>
#include <sys/mman.h>

enum { ROOM = 1 << 19 };

static char bytes[ROOM];

static unsigned long sum_of(const char *data, size_t count)
{
    unsigned long sum = count;
    for (size_t i = 0; i < count; i++) {
        sum = sum * 31 + (unsigned char) data[i];
    }
    return sum;
}

/* What came, and where the stream stands. */
static void show_read(const char *label, size_t items, size_t size, FILE *file)
{
    SHOW("%s: %zu sum %lu at %ld eof %d error %d", label, items, sum_of(bytes, items * size),
         ftell(file), feof(file) != 0, ferror(file) != 0);
}

static FILE *stream_of(const char *name)
{
    FILE *file = fopen(in_r(name), "r");
    OK(file != NULL);
    return file;
}

CASE(fread_whole)
{
    FILE *file = stream_of("mid.bin");
    show_read("whole", fread(bytes, 1, ROOM, file), 1, file);
    TELL(fgetc(file));
    show_read("again", fread(bytes, 1, ROOM, file), 1, file);
    rewind(file);
    show_read("rewound", fread(bytes, 1, 100000, file), 1, file);
    show_read("rest", fread(bytes, 1, ROOM, file), 1, file);
}

CASE(fread_exactly)
{
    FILE *file = stream_of("mid.bin");
    OK(fseek(file, 0, SEEK_END) == 0);
    size_t size = (size_t) ftell(file);
    rewind(file);
    show_read("exact", fread(bytes, size, 1, file), size, file);
    TELL(fgetc(file));
    TELL(feof(file) != 0);
}

CASE(fread_items)
{
    FILE *file = stream_of("mid.bin");
    show_read("of 7", fread(bytes, 7, 3000, file), 7, file);
    show_read("of 100000", fread(bytes, 100000, 3, file), 100000, file);
    TELL(fread(bytes, 0, 5, file));
    TELL(fread(bytes, 5, 0, file));
}

CASE(fread_after_some)
{
    FILE *file = stream_of("mid.bin");
    TELL(fgetc(file));
    TELL(fgetc(file));
    show_read("after getc", fread(bytes, 1, 60000, file), 1, file);
    TELL(fgetc(file));
    TELL(ungetc('!', file));
    show_read("after ungetc", fread(bytes, 1, 30000, file), 1, file);
    TELL(fseek(file, -20000, SEEK_CUR));
    show_read("after fseek", fread(bytes, 1, 20001, file), 1, file);
    TELL(fgetc(file));
    TELL(lseek(fileno(file), 0, SEEK_CUR) >= ftell(file));
}

CASE(fread_ungetc_of_another)
{
    FILE *file = stream_of("mid.bin");
    TELL(ungetc('a', file));
    show_read("first", fread(bytes, 1, 30000, file), 1, file);
    for (const char *c = "xyz"; *c != '\0'; c++) {
        TELL(ungetc(*c, file));
    }
    show_read("second", fread(bytes, 1, 30000, file), 1, file);
}

CASE(fread_of_other_buffers)
{
    static char buffer[40000];
    FILE *file = stream_of("mid.bin");
    TELL(setvbuf(file, NULL, _IONBF, 0));
    show_read("none", fread(bytes, 1, 50000, file), 1, file);
    TELL(fgetc(file));
    file = stream_of("mid.bin");
    TELL(setvbuf(file, buffer, _IOFBF, sizeof(buffer)));
    TELL(fgetc(file));
    show_read("large", fread(bytes, 1, 30000, file), 1, file);
    show_read("larger", fread(bytes, 1, 90000, file), 1, file);
    file = stream_of("mid.bin");
    TELL(setvbuf(file, NULL, _IOLBF, BUFSIZ));
    show_read("lines", fread(bytes, 1, 50000, file), 1, file);
}

CASE(fread_unlocked_and_locked)
{
    FILE *file = stream_of("mid.bin");
    flockfile(file);
    show_read("held", fread(bytes, 1, 20000, file), 1, file);
    show_read("unlocked", fread_unlocked(bytes, 1, 20000, file), 1, file);
    funlockfile(file);
    TELL(__fsetlocking(file, FSETLOCKING_BYCALLER));
    show_read("by caller", fread(bytes, 1, 20000, file), 1, file);
}

CASE(fread_to_bad_addresses)
{
    char *pages = mmap(NULL, 1 << 17, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    OK(pages != MAP_FAILED && mprotect(pages + (1 << 16), 1 << 16, PROT_NONE) == 0);
    FILE *file = stream_of("mid.bin");
    errno = 0;
    size_t got = fread(pages, 1, 1 << 17, file);
    SHOW("%zu %s error %d eof %d", got, strerrorname_np(errno), ferror(file) != 0, feof(file) != 0);
    clearerr(file);
    TELL(fseek(file, 0, SEEK_SET));
    show_read("after", fread(bytes, 1, 20000, file), 1, file);
}

CASE(fread_of_what_is_no_file)
{
    FILE *file = fopen(in_r(""), "r");
    OK(file != NULL);
    errno = 0;
    TELL(fread(bytes, 1, ROOM, file));
    SHOW("%d %d", ferror(file) != 0, feof(file) != 0);
}

static FILE *shared;
static size_t counts[4];

static void *read_parts(void *number)
{
    static char parts[4][10000];
    size_t *count = &counts[(intptr_t) number], got;
    while ((got = fread(parts[(intptr_t) number], 1, 10000, shared)) > 0) {
        *count += got;
    }
    return NULL;
}

CASE(fread_by_threads)
{
    pthread_t threads[4];
    shared = stream_of("mid.bin");
    for (intptr_t i = 0; i < 4; i++) {
        OK(pthread_create(&threads[i], NULL, read_parts, (void *) i) == 0);
    }
    size_t all = 0;
    for (int i = 0; i < 4; i++) {
        OK(pthread_join(threads[i], NULL) == 0);
        all += counts[i];
    }
    SHOW("%zu at %ld eof %d", all, ftell(shared), feof(shared) != 0);
}

/* A long chance order of calls; all that they say is added up. */
CASE(fread_among_other_calls)
{
    FILE *file = stream_of("mid.bin");
    unsigned long state = 12345, sum = 0;
    char line[300];
    for (int i = 0; i < 3000; i++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        unsigned chance = (unsigned) (state >> 33), what = chance % 8;
        size_t got = 0;
        if (what == 0) {
            got = fread(bytes, 1, chance / 8 % 40000, file);
        } else if (what == 1) {
            got = fread(bytes, 3, chance / 8 % 9000, file) * 3;
        } else if (what == 2) {
            sum += (unsigned long) fgetc(file) + 2;
        } else if (what == 3) {
            sum += (unsigned long) fseek(file, (long) (chance / 8 % 210000), SEEK_SET) + 2;
        } else if (what == 4) {
            sum += (unsigned long) ungetc((int) (chance / 8 % 256), file) + 2;
        } else if (what == 5) {
            sum += fgets(line, sizeof(line), file) != NULL ? sum_of(line, strlen(line)) : 1;
        } else if (what == 6) {
            got = fread_unlocked(bytes, 1, 8192 + chance / 8 % 3, file);
        } else {
            sum += (unsigned long) fseek(file, -(long) (chance / 8 % 5000), SEEK_CUR) + 2;
        }
        sum = sum * 31 + sum_of(bytes, got) + (unsigned long) ftell(file) + (feof(file) != 0);
        if (i % 500 == 0) {
            SHOW("%d: %lu", i, sum);
        }
    }
    SHOW("%lu", sum);
}
