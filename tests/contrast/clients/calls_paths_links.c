/* Links and what leads in from outside: /proc/self and /dev/fd, readlink, realpath. */
#include "calls_paths.h"

#include <dirent.h>
#include <sys/syscall.h>

CASE(dirfd_outside_leads_in)
{
    OK(symlink(in_r(""), "way") == 0);
    int here = open(".", O_RDONLY);
    OPENS(openat(here, "way/small", O_RDONLY));
    OPENS(openat(here, "way/sub/../x", O_RDONLY));
    OPENS(openat(here, "./way/to_dir/inner", O_RDONLY));
    int by = openat(here, "way/sub", O_RDONLY | O_DIRECTORY);
    OPENS(openat(by, "inner", O_RDONLY));
    OPENS(openat(here, "way/none", O_RDONLY));
}

CASE(links_from_outside)
{
    struct stat status;
    char text[PATH_MAX];
    OK(symlink(in_r("small"), "file") == 0 && symlink(in_r("sub"), "dir") == 0);
    OK(symlink("file", "again") == 0 && symlink(in_r("none"), "nothing") == 0);
    show_path("file", "file");
    show_path("again", "again");
    show_path("dir", "dir/inner");
    show_path("dir up", "dir/../x");
    TELL(open("nothing", O_RDONLY));
    TELL(open("file", O_RDONLY | O_NOFOLLOW));
    TELL(stat("again", &status));
    SHOW("size %ld", (long) status.st_size);
    TELL(lstat("again", &status));
    SHOW("link %d", S_ISLNK(status.st_mode));
    TELL(access("dir/deep", X_OK));
    TELL_POINTER(realpath("dir/back", text));
    SHOW("%s", text);
    TELL_POINTER(opendir("dir"));
    TELL(chdir("dir/deep"));
    show_path("leaf", "leaf");
}

CASE(link_outside_is_replaced)
{
    OK(symlink("/dev/null", "way") == 0);
    show_path("first", "way");
    OK(unlink("way") == 0 && symlink(in_r("small"), "way") == 0);
    show_path("second", "way");
    OK(unlink("way") == 0 && symlink(in_r("x"), "way") == 0);
    show_path("third", "way");
}

CASE(link_outside_into_a_new_directory)
{
    OK(symlink(in_d("later"), "way") == 0);
    TELL(open("way/f", O_RDONLY));
    OK(mkdir(in_d("later"), 0755) == 0);
    TELL(open("way/f", O_RDONLY));
    put("way/f", "by the link");
    show_path("way", "way/f");
    show_path("real", in_d("later/f"));
}

CASE(proc_self_fd)
{
    char path[64], text[PATH_MAX] = {0};
    struct stat one, two;
    int fd = reader("small");
    OK(lseek(fd, 6, SEEK_SET) == 6);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    OPENS(open(path, O_RDONLY));
    TELL(readlink(path, text, sizeof(text)));
    SHOW("%s", text);
    TELL(stat(path, &one));
    OK(fstat(fd, &two) == 0);
    SHOW("same %d", one.st_ino == two.st_ino && one.st_dev == two.st_dev);
    TELL(access(path, R_OK));
    TELL_POINTER(realpath(path, text));
    SHOW("%s", text);
    TELL(lstat(path, &one));
    SHOW("link %d", S_ISLNK(one.st_mode));
    show_next("offset is its own", fd);
}

CASE(dev_fd)
{
    char path[64];
    int fd = reader("small");
    OK(lseek(fd, 6, SEEK_SET) == 6);
    snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    OPENS(open(path, O_RDONLY));
    TELL(access(path, R_OK));
    TELL(access(path, X_OK));
    OK(dup2(fd, 0) == 0);
    OPENS(open("/dev/stdin", O_RDONLY));
    OPENS(open("/proc/self/fd/0", O_RDONLY));
}

CASE(proc_pid_fd)
{
    char path[64];
    int fd = reader("small");
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/task/%d/fd/%d", getpid(), fd);
    OPENS(open(path, O_RDONLY));
}

CASE(proc_self_fd_of_a_directory)
{
    char path[100], text[PATH_MAX] = {0};
    int fd = open(in_r("sub"), O_RDONLY);
    snprintf(path, sizeof(path), "/proc/self/fd/%d/inner", fd);
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/fd/%d/../small", fd);
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    TELL_POINTER(opendir(path));
    TELL_POINTER(realpath(path, text));
    SHOW("%s", text);
    TELL(chdir(path));
    show_path("here", "inner");
    snprintf(path, sizeof(path), "/dev/fd/%d/deep/leaf", fd);
    OPENS(open(path, O_RDONLY));
}

CASE(proc_self_cwd)
{
    char text[PATH_MAX] = {0};
    OK(chdir(in_r("sub")) == 0);
    OPENS(open("/proc/self/cwd/inner", O_RDONLY));
    OPENS(open("/proc/self/cwd/../small", O_RDONLY));
    OPENS(open("/proc/self/cwd/none", O_RDONLY));
    TELL(access("/proc/self/cwd/deep/leaf", R_OK));
    TELL_POINTER(opendir("/proc/self/cwd"));
    TELL_POINTER(realpath("/proc/self/cwd/back", text));
    SHOW("%s", text);
    TELL(readlink("/proc/self/cwd", text, sizeof(text)));
    SHOW("%s", text);
    FILE *stream = freopen("/proc/self/cwd/inner", "r", fopen("/dev/null", "r"));
    OK(stream != NULL);
    SHOW("first %d", fgetc(stream));
    fclose(stream);
}

CASE(proc_self_root)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "/proc/self/root%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/root/%s", in_r("to_dir/inner"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/root%s", in_r("none"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/self/root%s", in_r("sub"));
    TELL_POINTER(opendir(path));
}

CASE(readlink_sizes)
{
    char text[64];
    for (int size = 1; size <= 8; size++) {
        memset(text, '.', sizeof(text));
        ssize_t got = readlink(in_r("to_file"), text, size);
        SHOW("%d: %zd %.8s", size, got, text);
    }
    TELL(readlink(in_r("to_file"), text, 0));
    TELL(readlink(in_r("to_file"), (char *) 16, 5));
    TELL(readlink(in_r("small"), text, 5));
    TELL(readlink(in_r("sub"), text, 5));
    TELL(readlink(in_r("to_dir/"), text, 5));
    TELL(readlink(in_r("to_dir/."), text, 5));
    TELL(readlink(in_r("to_dir/back"), text, 20));
    TELL(readlink(in_r("loop_a"), text, 20));
}

CASE(readlinkat_forms)
{
    char text[64] = {0};
    int dir = open(in_r("sub"), O_RDONLY);
    TELL(readlinkat(dir, "back", text, sizeof(text)));
    SHOW("%s", text);
    TELL(readlinkat(dir, "../to_file", text, sizeof(text)));
    TELL(readlinkat(dir, "inner", text, sizeof(text)));
    TELL(readlinkat(dir, "", text, sizeof(text)));
    TELL(readlinkat(-1, "back", text, sizeof(text)));
    TELL(syscall(SYS_readlink, in_r("to_dir"), text, sizeof(text)));
    TELL(syscall(SYS_readlinkat, dir, "back", text, sizeof(text)));
}

static void show_real(const char *name)
{
    char text[PATH_MAX] = "";
    errno = 0;
    bool found = realpath(in_r(name), text) != NULL;
    SHOW("%s: %s", name, found ? text : strerrorname_np(errno));
}

CASE(realpath_forms)
{
    const char *names[] = {"small", "to_file", "to_dir/back", "sub/../x", "up", "dangling", "loop_a", "small/",
                           "small/x", "none", "sub/none/..", "chain6", "chain0", "to_dir/", "to_file_slash", "out",
                           "./sub//deep/./leaf"};
    for (int i = 0; i < 17; i++) {
        show_real(names[i]);
    }
}

CASE(realpath_relative_and_allocated)
{
    OK(chdir(in_r("sub")) == 0);
    SHOW("%s", realpath(".", NULL));
    SHOW("%s", realpath("..", NULL));
    SHOW("%s", realpath("back", NULL));
    TELL_POINTER(realpath("none", NULL));
    TELL_POINTER(realpath(NULL, NULL));
    TELL_POINTER(realpath("", NULL));
}

CASE(canonicalize_file_names)
{
    SHOW("%s", canonicalize_file_name(in_r("to_dir/deep/..")));
    SHOW("%s", canonicalize_file_name(in_r("to_file")));
    TELL_POINTER(canonicalize_file_name(in_r("none")));
    TELL_POINTER(canonicalize_file_name(in_r("loop_b")));
    TELL_POINTER(canonicalize_file_name(""));
}

CASE(realpath_of_outputs)
{
    char text[PATH_MAX];
    OK(mkdir(in_d("d"), 0755) == 0 && symlink("d", in_d("l")) == 0);
    put(in_d("d/f"), "x");
    SHOW("%s", realpath(in_d("l/f"), text));
    SHOW("%s", realpath(in_d("l/../given"), text));
    OK(chdir(in_d("l")) == 0);
    SHOW("%s", realpath("f", text));
    SHOW("%s", getcwd(text, sizeof(text)));
}

CASE(output_through_proc_self_cwd_and_fd)
{
    char path[64];
    OK(chdir(in_d("")) == 0);
    put("/proc/self/cwd/one", "one");
    show_path("one", in_d("one"));
    int dir = open(in_d(""), O_RDONLY);
    snprintf(path, sizeof(path), "/proc/self/fd/%d/two", dir);
    put(path, "two");
    show_path("two", in_d("two"));
    int fd = open(in_d("three"), O_RDWR | O_CREAT, 0644);
    snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    int again = open(path, O_WRONLY | O_APPEND);
    TELL(write(again, "three", 5));
    TELL(close(again));
    TELL(close(fd));
    show_path("three", in_d("three"));
}
