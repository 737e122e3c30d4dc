/* Directory streams, listings and walks: opendir, readdir, seekdir, getdents64, scandir, glob, ftw. */
#include "calls.h"

#include <dirent.h>
#include <ftw.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static char *lines[5000];
static int count;

static int by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *) left, *(char *const *) right);
}

static void note(const char *text)
{
    lines[count++] = strdup(text);
}

/* What was noted, sorted; `most` lines of it. */
static void show_noted(const char *label, int most)
{
    qsort(lines, count, sizeof(lines[0]), by_text);
    SHOW("%s: %d", label, count);
    for (int i = 0; i < count && i < most; i++) {
        SHOW("  %s", lines[i]);
    }
    count = 0;
}

static void note_rest(DIR *dir)
{
    for (struct dirent *each; (each = readdir(dir)) != NULL;) {
        note(each->d_name);
    }
}

CASE(opendir_is_close_on_exec)
{
    DIR *dir = opendir(in_r("sub"));
    TELL(fcntl(dirfd(dir), F_GETFD));
    TELL(fcntl(dirfd(dir), F_GETFL) & (O_ACCMODE | O_DIRECTORY | O_APPEND | O_NONBLOCK));
    TELL(closedir(dir));
}

CASE(opendir_takes_the_lowest_number)
{
    int first = reader("x");
    DIR *dir = opendir(in_r("sub"));
    SHOW("next: %d", dirfd(dir) == first + 1);
    TELL(closedir(dir));
    TELL(reader("x") - first);
}

CASE(readdir_leaves_errno_at_the_end)
{
    DIR *dir = opendir(in_r("sub"));
    errno = 77;
    note_rest(dir);
    SHOW("errno %d", errno);
    SHOW("again %d errno %d", readdir(dir) == NULL, errno);
    TELL(closedir(dir));
}

CASE(readdir_of_a_number_closed_behind_it)
{
    DIR *dir = opendir(in_r("sub"));
    TELL(close(dirfd(dir)));
    errno = 0;
    TELL(closedir(dir));
}

CASE(readdir_types_agree_with_lstat)
{
    const char *names[] = {"", "sub", "modes", "names", "programs"};
    for (int i = 0; i < 5; i++) {
        DIR *dir = opendir(in_r(names[i]));
        for (struct dirent *each; (each = readdir(dir)) != NULL;) {
            struct stat status;
            OK(fstatat(dirfd(dir), each->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0);
            char line[400];
            snprintf(line, sizeof(line), "%d %d %d %s", each->d_type,
                     each->d_type == IFTODT(status.st_mode), each->d_ino == status.st_ino,
                     each->d_name);
            note(line);
        }
        TELL(closedir(dir));
        show_noted(names[i], 90);
    }
}

CASE(readdir_of_a_removed_directory)
{
    OK(mkdir(in_d("gone"), 0755) == 0);
    DIR *dir = opendir(in_d("gone"));
    OK(rmdir(in_d("gone")) == 0);
    int seen = 0;
    errno = 0;
    while (readdir(dir) != NULL) {
        seen++;
    }
    SHOW("entries besides dots: %d %s", seen > 2, strerrorname_np(errno));
    TELL(closedir(dir));
}

CASE(readdir_sees_names_made_before_rewinddir)
{
    DIR *dir = opendir(in_d(""));
    note_rest(dir);
    show_noted("first", 20);
    put(in_d("new"), "x");
    OK(unlink(in_d("new")) == 0);
    put(in_d("newer"), "x");
    rewinddir(dir);
    note_rest(dir);
    show_noted("second", 20);
    TELL(closedir(dir));
}

CASE(readdir64_is_readdir)
{
    DIR *one = opendir(in_r("many")), *two = opendir(in_r("many"));
    int same = 0, all = 0;
    for (struct dirent *each; (each = readdir(one)) != NULL; all++) {
        struct dirent64 *other = readdir64(two);
        same += other != NULL && strcmp(each->d_name, other->d_name) == 0 &&
                each->d_ino == other->d_ino && each->d_off == other->d_off;
    }
    SHOW("all %d same %d end %d", all, same == all, readdir64(two) == NULL);
}

CASE(readdir_r_ends_with_null)
{
    struct dirent entry, *result = &entry;
    DIR *dir = opendir(in_r("sub"));
    int code;
    while ((code = readdir_r(dir, &entry, &result)) == 0 && result != NULL) {
        OK(result == &entry);
        note(entry.d_name);
    }
    SHOW("code %d end %d", code, result == NULL);
    show_noted("names", 20);
    SHOW("again %d %d", readdir_r(dir, &entry, &result), result == NULL);
}

CASE(readdir_r_and_readdir_mix)
{
    struct dirent entry, *result;
    DIR *dir = opendir(in_r("many"));
    for (int i = 0; i < 400; i++) {
        struct dirent *each = i % 2 == 0 ? readdir(dir)
                                         : (readdir_r(dir, &entry, &result), result);
        if (each != NULL) {
            note(each->d_name);
        }
    }
    show_noted("all of them", 400);
}

CASE(seekdir_to_each_place)
{
    long places[400];
    char *names[400];
    int all = 0, wrong = 0;
    DIR *dir = opendir(in_r("many"));
    for (struct dirent *each; places[all] = telldir(dir), (each = readdir(dir)) != NULL; all++) {
        names[all] = strdup(each->d_name);
    }
    for (int i = all - 1; i >= 0; i--) {
        seekdir(dir, places[i]);
        struct dirent *each = readdir(dir);
        wrong += each == NULL || strcmp(each->d_name, names[i]) != 0;
    }
    SHOW("all %d wrong %d", all, wrong);
    seekdir(dir, places[all]);
    SHOW("end %d", readdir(dir) == NULL);
}

CASE(seekdir_then_telldir_is_the_same)
{
    DIR *dir = opendir(in_r("many"));
    for (int i = 0; i < 20; i++) {
        readdir(dir);
    }
    long at = telldir(dir);
    readdir(dir);
    seekdir(dir, at);
    SHOW("same %d", telldir(dir) == at);
    seekdir(dir, 0);
    SHOW("dots first or not, all there");
    note_rest(dir);
    show_noted("from zero", 3);
}

CASE(telldir_is_d_off)
{
    DIR *dir = opendir(in_r("sub"));
    int same = 0, all = 0;
    for (struct dirent *each; (each = readdir(dir)) != NULL; all++) {
        same += each->d_off == telldir(dir);
    }
    SHOW("all %d same %d", all, same == all);
}

CASE(telldir_of_two_streams)
{
    DIR *one = opendir(in_r("many")), *two = opendir(in_r("many"));
    for (int i = 0; i < 10; i++) {
        readdir(one);
    }
    long at = telldir(one);
    struct dirent *next = readdir(one);
    char name[300];
    strcpy(name, next->d_name);
    note_rest(two);
    show_noted("two", 2);
    seekdir(one, at);
    SHOW("same %d", strcmp(readdir(one)->d_name, name) == 0);
}

CASE(rewinddir_after_the_end)
{
    DIR *dir = opendir(in_r("sub"));
    for (int i = 0; i < 3; i++) {
        note_rest(dir);
        show_noted("round", 20);
        rewinddir(dir);
    }
}

CASE(dirfd_is_usable)
{
    DIR *dir = opendir(in_r("sub"));
    struct stat status;
    TELL(fstatat(dirfd(dir), "deep/leaf", &status, 0));
    TELL(faccessat(dirfd(dir), "inner", R_OK, 0));
    show_next("openat", openat(dirfd(dir), "inner", O_RDONLY));
    TELL(fchdir(dirfd(dir)));
    show_path("relative", "inner");
}

CASE(dirfd_reads_as_a_directory)
{
    DIR *dir = opendir(in_r("sub"));
    char byte;
    TELL(read(dirfd(dir), &byte, 1));
    TELL(pread(dirfd(dir), &byte, 1, 0));
    TELL(write(dirfd(dir), &byte, 1));
    TELL(ftruncate(dirfd(dir), 0));
    TELL(mmap(NULL, 10, PROT_READ, MAP_PRIVATE, dirfd(dir), 0) == MAP_FAILED ? -1 : 0);
    TELL(fsync(dirfd(dir)));
    TELL(isatty(dirfd(dir)) == 0 ? -1 : 0);
}

CASE(fdopendir_takes_over_the_number)
{
    int fd = open(in_r("sub"), O_RDONLY | O_DIRECTORY);
    DIR *dir = fdopendir(fd);
    SHOW("same %d", dirfd(dir) == fd);
    note_rest(dir);
    show_noted("names", 20);
    TELL(closedir(dir));
    TELL(fcntl(fd, F_GETFD));
}

CASE(fdopendir_sets_no_flags)
{
    int fd = open(in_r("sub"), O_RDONLY | O_DIRECTORY);
    TELL(fcntl(fd, F_GETFD));
    DIR *dir = fdopendir(fd);
    TELL(fcntl(dirfd(dir), F_GETFD));
}

CASE(fdopendir_of_a_duplicate)
{
    int fd = open(in_r("sub"), O_RDONLY | O_DIRECTORY), other = dup(fd);
    DIR *dir = fdopendir(other);
    note_rest(dir);
    show_noted("names", 20);
    TELL(closedir(dir));
    struct stat status;
    TELL(fstatat(fd, "inner", &status, 0));
}

CASE(fdopendir_refusals)
{
    TELL_POINTER(fdopendir(reader("small")));
    TELL_POINTER(fdopendir(-1));
    TELL_POINTER(fdopendir(open(in_d("w"), O_WRONLY | O_CREAT, 0644)));
}

CASE(fdopendir_of_dot)
{
    OK(chdir(in_r("sub")) == 0);
    DIR *dir = fdopendir(open(".", O_RDONLY));
    note_rest(dir);
    show_noted("names", 20);
    dir = opendir("deep/..");
    note_rest(dir);
    show_noted("names", 20);
}

CASE(opendir_refusals)
{
    TELL_POINTER(opendir(in_r("none")));
    TELL_POINTER(opendir(in_r("small")));
    TELL_POINTER(opendir(in_r("small/")));
    TELL_POINTER(opendir(in_r("to_file")));
    TELL_POINTER(opendir(in_r("dangling")));
    TELL_POINTER(opendir(in_r("loop_a")));
    TELL_POINTER(opendir(in_r("small/x")));
    TELL_POINTER(opendir(""));
    TELL_POINTER(opendir(in_r("chain0")));
}

CASE(opendir_by_links)
{
    const char *names[] = {"to_dir", "to_dir/", "to_dir_slash", "sub/../to_dir/deep", "up/read/sub"};
    for (int i = 0; i < 5; i++) {
        DIR *dir = opendir(in_r(names[i]));
        if (dir == NULL) {
            SHOW("%s: %s", names[i], strerrorname_np(errno));
            continue;
        }
        note_rest(dir);
        show_noted(names[i], 20);
        closedir(dir);
    }
}

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

static void show_glob(const char *pattern, int flags)
{
    glob_t found = {0};
    int code = glob(in_r(pattern), flags, NULL, &found);
    SHOW("%s %x: %d, %zu", pattern, flags, code, code == 0 ? found.gl_pathc : 0);
    for (size_t i = 0; code == 0 && i < found.gl_pathc && i < 12; i++) {
        SHOW("  %s", found.gl_pathv[i]);
    }
    globfree(&found);
}

CASE(glob_plain_patterns)
{
    show_glob("*", 0);
    show_glob("s*", 0);
    show_glob("sub/*/*", 0);
    show_glob("many/f00?[0-3]", 0);
    show_glob("[!a-r]*", 0);
    show_glob("none*", 0);
    show_glob("small", 0);
    show_glob("none", 0);
}

CASE(glob_mark) { show_glob("*", GLOB_MARK); }
CASE(glob_nosort_counts)
{
    glob_t found = {0};
    TELL(glob(in_r("many/*"), GLOB_NOSORT, NULL, &found));
    SHOW("%zu", found.gl_pathc);
}
CASE(glob_onlydir) { show_glob("*", GLOB_ONLYDIR); }
CASE(glob_onlydir_below) { show_glob("*/*", GLOB_ONLYDIR); }
CASE(glob_period)
{
    show_glob("*", GLOB_PERIOD);
    show_glob(".*", 0);
    show_glob(".h*", GLOB_PERIOD);
}
CASE(glob_nocheck)
{
    show_glob("none*", GLOB_NOCHECK);
    show_glob("none*", GLOB_NOMAGIC);
    show_glob("none", GLOB_NOMAGIC);
}
CASE(glob_brace)
{
    show_glob("{small,x,none}", GLOB_BRACE);
    show_glob("{sub,many}/{inner,f000*}", GLOB_BRACE);
    show_glob("names/{brace}", 0);
}
CASE(glob_noescape)
{
    show_glob("names/star\\**", 0);
    show_glob("names/back\\slash", GLOB_NOESCAPE);
    show_glob("names/back\\\\slash", 0);
}
CASE(glob_err_of_a_missing_directory)
{
    show_glob("none/*", GLOB_ERR);
    show_glob("small/*", GLOB_ERR);
    show_glob("loop_a/*", 0);
}
CASE(glob_through_links)
{
    show_glob("to_*/inner", 0);
    show_glob("*/back", 0);
    show_glob("dangling", 0);
    show_glob("dang*", 0);
    show_glob("loop*", 0);
}
CASE(glob_with_slashes)
{
    show_glob("*/", 0);
    show_glob("sub//in*", 0);
    show_glob("./s*", 0);
    show_glob("sub/../x*", 0);
}

CASE(glob_append_and_offset)
{
    glob_t found = {.gl_offs = 2};
    TELL(glob(in_r("s*"), GLOB_DOOFFS, NULL, &found));
    TELL(glob(in_r("many/f000*"), GLOB_DOOFFS | GLOB_APPEND, NULL, &found));
    SHOW("%zu %d %d", found.gl_pathc, found.gl_pathv[0] == NULL, found.gl_pathv[1] == NULL);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        SHOW("  %s", found.gl_pathv[2 + i]);
    }
    globfree(&found);
}

static int on_error(const char *path, int code)
{
    SHOW("error %s %s", path, strerrorname_np(code));
    return 0;
}

CASE(glob_calls_back_on_errors)
{
    glob_t found = {0};
    TELL(glob(in_r("small/*"), 0, on_error, &found));
    TELL(glob(in_r("*/inner"), 0, on_error, &found));
}

CASE(glob_relative)
{
    glob_t found = {0};
    OK(chdir(in_r("sub")) == 0);
    TELL(glob("*", 0, NULL, &found));
    TELL(glob("../s*", GLOB_APPEND, NULL, &found));
    TELL(glob("./deep/*", GLOB_APPEND, NULL, &found));
    for (size_t i = 0; i < found.gl_pathc; i++) {
        SHOW("  %s", found.gl_pathv[i]);
    }
}

CASE(glob64_is_glob)
{
    glob64_t found = {0};
    TELL(glob64(in_r("many/f01*"), 0, NULL, &found));
    SHOW("%zu", found.gl_pathc);
    globfree64(&found);
}

CASE(glob_own_directory_functions)
{
    glob_t found = {0};
    found.gl_opendir = (void *(*) (const char *) ) opendir;
    found.gl_readdir = (struct dirent * (*) (void *) ) readdir;
    found.gl_closedir = (void (*)(void *)) closedir;
    found.gl_stat = stat;
    found.gl_lstat = lstat;
    TELL(glob(in_r("s*"), GLOB_ALTDIRFUNC, NULL, &found));
    for (size_t i = 0; i < found.gl_pathc; i++) {
        SHOW("  %s", found.gl_pathv[i]);
    }
}

static int stop_after;

static int visit(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    char line[PATH_MAX];
    snprintf(line, sizeof(line), "%d %d %o %s", kind, place->level,
             kind == FTW_NS ? 0 : status->st_mode & S_IFMT, path + place->base);
    note(line);
    return stop_after > 0 && --stop_after == 0 ? 55 : 0;
}

static void show_walk(const char *name, int depth, int flags)
{
    errno = 0;
    int code = nftw(in_r(name), visit, depth, flags);
    SHOW("%s %x: %d %s", name, flags, code, code < 0 ? strerrorname_np(errno) : "");
    show_noted(name, 30);
}

CASE(nftw_physical) { show_walk("sub", 10, FTW_PHYS); }
CASE(nftw_depth_first) { show_walk("sub", 10, FTW_PHYS | FTW_DEPTH); }
CASE(nftw_one_descriptor) { show_walk("sub", 1, FTW_PHYS); }
CASE(nftw_follows_links) { show_walk("to_dir", 10, 0); }
CASE(nftw_mount_only) { show_walk("sub", 10, FTW_PHYS | FTW_MOUNT); }
CASE(nftw_changes_directory)
{
    show_walk("sub", 10, FTW_PHYS | FTW_CHDIR);
    show_walk("sub", 10, FTW_PHYS | FTW_CHDIR | FTW_DEPTH);
}
CASE(nftw_of_a_file)
{
    show_walk("small", 10, 0);
    show_walk("none", 10, 0);
    show_walk("dangling", 10, 0);
    show_walk("dangling", 10, FTW_PHYS);
}

CASE(nftw_is_stopped)
{
    stop_after = 3;
    TELL(nftw(in_r("many"), visit, 10, FTW_PHYS));
    SHOW("%d", count);
}

static int skip_deep(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    note(path + place->base);
    return strcmp(path + place->base, "deep") == 0 ? FTW_SKIP_SUBTREE : FTW_CONTINUE;
}

static int skip_siblings(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    return place->level == 1 ? (note("one"), FTW_SKIP_SIBLINGS) : FTW_CONTINUE;
}

CASE(nftw_action_return_values)
{
    TELL(nftw(in_r("sub"), skip_deep, 10, FTW_PHYS | FTW_ACTIONRETVAL));
    show_noted("skipped", 20);
    TELL(nftw(in_r("many"), skip_siblings, 10, FTW_PHYS | FTW_ACTIONRETVAL));
    show_noted("siblings", 20);
}

static int visit_old(const char *path, const struct stat *status, int kind)
{
    char line[PATH_MAX];
    snprintf(line, sizeof(line), "%d %s", kind, path);
    note(line);
    return 0;
}

CASE(ftw_of_a_tree)
{
    TELL(ftw(in_r("sub"), visit_old, 3));
    show_noted("sub", 20);
    TELL(ftw(in_r("none"), visit_old, 3));
}

static int remover(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    return remove(path);
}

CASE(nftw_removes_a_tree)
{
    OK(mkdir(in_d("d"), 0755) == 0 && mkdir(in_d("d/e"), 0755) == 0);
    put(in_d("d/f"), "x");
    put(in_d("d/e/g"), "x");
    TELL(nftw(in_d("d"), remover, 4, FTW_PHYS | FTW_DEPTH));
    TELL(access(in_d("d"), F_OK));
}
