/* Whole listings: getdents64 and scandir. */
#include "calls_dirs.h"

#include <sys/syscall.h>

/* Notes what a descriptor lists with buffers of `size` bytes, and the errno that ends it. */
static void note_dents(int fd, size_t size)
{
    static char buffer[65536];
    long got;
    while ((got = getdents64(fd, buffer, size)) > 0) {
        for (long at = 0; at < got;) {
            struct dirent64 *each = (struct dirent64 *) (buffer + at);
            OK(each->d_reclen % 8 == 0 && (size_t) (at + each->d_reclen) <= size);
            note(each->d_name);
            at += each->d_reclen;
        }
    }
    SHOW("size %zu ends: %ld %s", size, got, got < 0 ? strerrorname_np(errno) : "");
}

CASE(getdents64_with_small_buffers)
{
    for (size_t size = 24; size <= 40; size += 8) {
        int fd = open(in_r("many"), O_RDONLY | O_DIRECTORY);
        note_dents(fd, size);
        show_noted("names", 2);
        close(fd);
    }
}

CASE(getdents64_with_odd_buffers)
{
    size_t sizes[] = {25, 31, 33, 63, 100, 1000, 4095, 4097, 65536};
    for (int i = 0; i < 9; i++) {
        int fd = open(in_r("many"), O_RDONLY | O_DIRECTORY);
        note_dents(fd, sizes[i]);
        show_noted("names", 2);
        close(fd);
    }
}

CASE(getdents64_buffer_too_small_for_a_name)
{
    char buffer[300];
    int fd = open(in_r("names"), O_RDONLY | O_DIRECTORY);
    long got;
    int seen = 0;
    while ((got = getdents64(fd, buffer, 100)) > 0) {
        seen++;
    }
    TELL(got);
    SHOW("errno %s", strerrorname_np(errno));
    TELL(getdents64(open(in_r("many"), O_RDONLY), buffer, 0));
    TELL(getdents64(open(in_r("many"), O_RDONLY), buffer, 1));
    TELL(getdents64(open(in_r("many"), O_RDONLY), buffer, 19));
}

CASE(getdents64_goes_on_after_a_refusal)
{
    char buffer[300];
    int fd = open(in_r("many"), O_RDONLY | O_DIRECTORY);
    TELL(getdents64(fd, buffer, 8));
    note_dents(fd, 100);
    show_noted("names", 2);
}

CASE(getdents64_bad_pointer)
{
    int fd = open(in_r("many"), O_RDONLY | O_DIRECTORY);
    TELL(getdents64(fd, (void *) 16, 1000));
    TELL(getdents64(-1, (void *) 16, 1000));
    note_dents(fd, 1000);
    show_noted("names", 2);
}

CASE(getdents64_lseek_to_start)
{
    int fd = open(in_r("sub"), O_RDONLY | O_DIRECTORY);
    note_dents(fd, 1000);
    show_noted("first", 20);
    note_dents(fd, 1000);
    show_noted("at the end", 20);
    TELL(lseek(fd, 0, SEEK_SET));
    note_dents(fd, 1000);
    show_noted("again", 20);
    TELL(lseek(fd, -1, SEEK_SET));
    TELL(lseek(fd, 0, 99));
}

CASE(getdents64_lseek_to_d_off)
{
    static char buffer[65536];
    int fd = open(in_r("many"), O_RDONLY | O_DIRECTORY);
    struct dirent64 *each = (struct dirent64 *) buffer;
    OK(getdents64(fd, buffer, 32) > 0);
    OK(getdents64(fd, buffer, 32) > 0);
    off_t after = each->d_off;
    OK(getdents64(fd, buffer, 32) > 0);
    char name[300];
    strcpy(name, each->d_name);
    note_dents(fd, 4096);
    count = 0;
    SHOW("seek %d", lseek(fd, after, SEEK_SET) == after);
    OK(getdents64(fd, buffer, 32) > 0);
    SHOW("same %d", strcmp(name, each->d_name) == 0);
}

CASE(getdents64_by_syscall)
{
    char buffer[4096];
    int fd = open(in_r("sub"), O_RDONLY | O_DIRECTORY);
    long got = syscall(SYS_getdents64, fd, buffer, sizeof(buffer));
    for (long at = 0; at < got;) {
        struct dirent64 *each = (struct dirent64 *) (buffer + at);
        note(each->d_name);
        at += each->d_reclen;
    }
    show_noted("names", 20);
    TELL(syscall(SYS_getdents64, fd, buffer, sizeof(buffer)));
    TELL(syscall(SYS_getdents64, reader("small"), buffer, sizeof(buffer)));
}

CASE(getdents64_shared_by_duplicates)
{
    int fd = open(in_r("many"), O_RDONLY | O_DIRECTORY), other = dup(fd);
    char buffer[2000];
    OK(getdents64(fd, buffer, sizeof(buffer)) > 0);
    note_dents(other, 2000);
    SHOW("less than all %d", count < 302 && count > 100);
    count = 0;
    note_dents(fd, 2000);
    SHOW("nothing more %d", count);
}

CASE(getdents64_of_a_file)
{
    char buffer[1000];
    TELL(getdents64(reader("small"), buffer, sizeof(buffer)));
    TELL(getdents64(open(in_r("sub"), O_PATH), buffer, sizeof(buffer)));
}

static int only_f(const struct dirent *entry)
{
    return entry->d_name[0] == 'f';
}

static int backwards(const struct dirent **left, const struct dirent **right)
{
    return -strcmp((*left)->d_name, (*right)->d_name);
}

CASE(scandir_filter_and_order)
{
    struct dirent **found;
    int all = scandir(in_r("many"), &found, only_f, backwards);
    SHOW("all %d first %s last %s", all, found[0]->d_name, found[all - 1]->d_name);
}

CASE(scandir_without_order_or_filter)
{
    struct dirent **found;
    int all = scandir(in_r("sub"), &found, NULL, NULL);
    for (int i = 0; i < all; i++) {
        note(found[i]->d_name);
        free(found[i]);
    }
    free(found);
    show_noted("all", 20);
}

CASE(scandir_refusals)
{
    struct dirent **found;
    TELL(scandir(in_r("none"), &found, NULL, NULL));
    TELL(scandir(in_r("small"), &found, NULL, NULL));
    TELL(scandir(in_r("empty_dir"), &found, NULL, NULL));
    TELL(scandirat(open(in_r("sub"), O_RDONLY), "deep", &found, NULL, alphasort));
    TELL(scandirat(reader("small"), "deep", &found, NULL, alphasort));
    TELL(scandirat(-1, "deep", &found, NULL, alphasort));
    TELL(scandirat(-1, in_r("sub"), &found, NULL, alphasort));
}

CASE(scandir_sees_new_names)
{
    struct dirent **found;
    put(in_d("a"), "1");
    OK(mkdir(in_d("b"), 0755) == 0);
    OK(symlink("a", in_d("c")) == 0);
    int all = scandir(in_d(""), &found, NULL, alphasort);
    for (int i = 0; i < all; i++) {
        SHOW("%s %d", found[i]->d_name, found[i]->d_type);
    }
}
