/* How a path is read: dots, slashes, lengths, bad pointers, chdir and getcwd. */
#include "calls_paths.h"

#include <sys/statfs.h>
#include <sys/syscall.h>

CASE(dots_and_slashes)
{
    const char *names[] = {"./small", "//small", "sub/./inner", "sub//deep///leaf", "sub/../small", "./././x",
                           "sub/deep/../../x", "sub/deep/deeper/../../../sub/inner", "empty_dir/../small",
                           "to_dir/../x", "none/../small", "small/../x", "small/.", "small/", "x//", "sub/.",
                           "sub/..", "up/read/x", "../read/small", "../../../../../../../../../../../etc/none"};
    struct stat status;
    for (int i = 0; i < 20; i++) {
        errno = 0;
        int code = stat(in_r(names[i]), &status);
        SHOW("%s: %d %s %o", names[i], code, strerrorname_np(errno), code == 0 ? status.st_mode : 0);
    }
}

CASE(many_leading_slashes)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "/%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "///////%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/.%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/tmp/..%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
    snprintf(path, sizeof(path), "/proc/../%s", in_r("small"));
    OPENS(open(path, O_RDONLY));
}

CASE(relative_paths)
{
    OK(chdir(in_r("sub")) == 0);
    OPENS(open("inner", O_RDONLY));
    OPENS(open("./inner", O_RDONLY));
    OPENS(open("../x", O_RDONLY));
    OPENS(open("deep/../back", O_RDONLY));
    OPENS(open("../to_dir/inner", O_RDONLY));
    OPENS(open("../../read/x", O_RDONLY));
    OPENS(open("none", O_RDONLY));
    OPENS(open("", O_RDONLY));
    OPENS(open("inner/", O_RDONLY));
}

CASE(long_names_and_paths)
{
    static char path[8192];
    struct stat status;
    snprintf(path, sizeof(path), "%s/names/", in_r(""));
    memset(path + strlen(path), 'n', 255);
    TELL(stat(path, &status));
    strcat(path, "n");
    TELL(stat(path, &status));
    strcpy(path, in_r(""));
    while (strlen(path) < 4090) {
        strcat(path, "/");
    }
    strcat(path, "x");
    TELL(stat(path, &status));
    while (strlen(path) < 4097) {
        strcat(path, "/");
    }
    TELL(stat(path, &status));
    TELL(open(path, O_RDONLY));
    TELL(access(path, F_OK));
    TELL(chdir(path));
    TELL(readlink(path, path + 5000, 10));
}

CASE(bad_pointers)
{
    struct stat status;
    struct statx wide;
    struct statfs fs;
    TELL(stat((char *) 16, &status));
    TELL(open((char *) 16, O_RDONLY));
    TELL(access((char *) 16, F_OK));
    TELL(readlink((char *) 16, (char *) &status, 10));
    TELL(statfs((char *) 16, &fs));
    TELL(statx(AT_FDCWD, (char *) 16, 0, STATX_SIZE, &wide));
    TELL(statx(AT_FDCWD, in_r("x"), 0, STATX_SIZE, (struct statx *) 16));
    TELL(chdir((char *) 16));
    TELL(syscall(SYS_newfstatat, AT_FDCWD, in_r("x"), (struct stat *) 16, 0));
}

CASE(chdir_and_getcwd)
{
    char text[PATH_MAX];
    const char *names[] = {"sub", "to_dir", "sub/deep/..", "empty_dir", "up", ".", "to_dir/deep"};
    for (int i = 0; i < 7; i++) {
        TELL(chdir(in_r(names[i])));
        SHOW("%s: %s", names[i], getcwd(text, sizeof(text)));
    }
    TELL(chdir(in_r("small")));
    TELL(chdir(in_r("none")));
    TELL(chdir(in_r("loop_a")));
    TELL(chdir(in_r("dangling")));
    TELL(chdir(""));
    SHOW("stayed: %s", getcwd(text, sizeof(text)));
}

CASE(chdir_relative)
{
    char text[PATH_MAX];
    OK(chdir(in_r("sub/deep/deeper")) == 0);
    TELL(chdir(".."));
    SHOW("%s", getcwd(text, sizeof(text)));
    TELL(chdir("../../to_dir"));
    SHOW("%s", getcwd(text, sizeof(text)));
    TELL(chdir("../.."));
    SHOW("%s", getcwd(text, sizeof(text)));
    TELL(chdir("/"));
    SHOW("%s", getcwd(text, sizeof(text)));
    TELL(chdir(in_r("")));
    TELL(chdir("none"));
    TELL(access("small", R_OK));
}

CASE(fchdir_forms)
{
    char text[PATH_MAX];
    int dir = open(in_r("sub/deep"), O_RDONLY), path = open(in_r("sub"), O_PATH);
    TELL(fchdir(dir));
    SHOW("%s", getcwd(text, sizeof(text)));
    TELL(fchdir(path));
    SHOW("%s", getcwd(text, sizeof(text)));
    show_path("inner", "inner");
    TELL(fchdir(reader("small")));
    TELL(fchdir(-1));
    TELL(fchdir(open(in_w(""), O_RDONLY)));
    TELL(access("inner", F_OK));
    TELL(close(dir));
    TELL(fchdir(dir));
}

CASE(getcwd_sizes)
{
    char text[PATH_MAX];
    OK(chdir(in_r("sub")) == 0);
    size_t length = strlen(getcwd(text, sizeof(text)));
    TELL_POINTER(getcwd(text, length));
    TELL_POINTER(getcwd(text, length + 1));
    TELL_POINTER(getcwd(text, 0));
    TELL_POINTER(getcwd(NULL, 3));
    TELL_POINTER(getcwd(NULL, length + 1));
    SHOW("syscall %ld", syscall(SYS_getcwd, text, sizeof(text)));
    char *old = getwd(text);
    SHOW("getwd %s", old);
    setenv("PWD", in_r("to_dir"), 1);
    char *name = get_current_dir_name();
    SHOW("get_current_dir_name %s", name);
}

CASE(getcwd_in_a_child)
{
    char text[PATH_MAX];
    OK(chdir(in_r("sub")) == 0);
    IN_CHILD("child", SHOW("%s", getcwd(text, sizeof(text))); OK(chdir("deep") == 0);
             SHOW("%s", getcwd(text, sizeof(text))));
    SHOW("%s", getcwd(text, sizeof(text)));
    fflush(NULL);
    TELL(system("pwd; cat inner"));
}

CASE(cwd_is_removed)
{
    char text[PATH_MAX];
    OK(mkdir(in_d("gone"), 0755) == 0 && chdir(in_d("gone")) == 0);
    OK(rmdir(in_d("gone")) == 0);
    TELL_POINTER(getcwd(text, sizeof(text)));
    TELL(open("f", O_RDWR | O_CREAT, 0644));
    TELL(open("f", O_RDONLY));
    TELL(chdir(".."));
}

CASE(acct_and_others_outside)
{
    struct stat status;
    TELL(stat("/etc/passwd", &status));
    TELL(access("/proc/self/status", R_OK));
    TELL(open("/no/such/file", O_RDONLY));
    TELL(readlink("/etc/passwd", (char *) &status, 10));
}
