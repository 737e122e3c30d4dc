/* Directory streams: opendir, fdopendir, readdir, seekdir, telldir, dirfd. */
#include "calls_dirs.h"

#include <sys/mman.h>

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
