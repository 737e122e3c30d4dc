/* Directory streams, tree walks and globs from C. */
#include "client.h"

#include <dirent.h>
#include <ftw.h>
#include <glob.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <wordexp.h>

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *) left, *(char *const *) right);
}

static char *collected[5000];
static size_t collected_count;

static void collect(const char *name)
{
    collected[collected_count++] = strdup(name);
}

static void show_collected(const char *label)
{
    qsort(collected, collected_count, sizeof(collected[0]), by_name);
    SHOW("%s: %zu", label, collected_count);
    for (size_t i = 0; i < collected_count && i < 60; i++) {
        SHOW("  %s", collected[i]);
    }
    collected_count = 0;
}

CASE(readdir_names_and_types)
{
    const char *names[] = {"", "text", "links", "names", "empty_dir", "modes", NULL};
    for (int i = 0; names[i] != NULL; i++) {
        DIR *dir = opendir(in_tree(names[i]));
        struct dirent *entry;
        while ((entry = readdir(dir)) != NULL) {
            char line[400];
            snprintf(line, sizeof(line), "%d %s", entry->d_type, entry->d_name);
            collect(line);
        }
        SHOW("close %d", closedir(dir));
        show_collected(names[i]);
    }
}

CASE(readdir64_counts_many)
{
    DIR *dir = opendir(in_tree("many"));
    int count = 0;
    for (struct dirent64 *entry; (entry = readdir64(dir)) != NULL; count++) {
        OK(entry->d_ino != 0 && entry->d_reclen >= 24);
    }
    SHOW("count %d", count);
}

CASE(readdir_r_forms)
{
    DIR *dir = opendir(in_tree("text"));
    struct dirent entry, *result;
    while (readdir_r(dir, &entry, &result) == 0 && result != NULL) {
        collect(entry.d_name);
    }
    show_collected("readdir_r");
    rewinddir(dir);
    struct dirent64 large, *found;
    while (readdir64_r(dir, &large, &found) == 0 && found != NULL) {
        collect(large.d_name);
    }
    show_collected("readdir64_r");
}

CASE(telldir_and_seekdir)
{
    DIR *dir = opendir(in_tree("many"));
    long places[1600];
    char *seen[1600];
    int count = 0;
    for (struct dirent *entry;; count++) {
        places[count] = telldir(dir);
        if ((entry = readdir(dir)) == NULL) {
            break;
        }
        seen[count] = strdup(entry->d_name);
    }
    SHOW("count %d", count);
    int wrong = 0;
    for (int i = count - 1; i >= 0; i -= 37) {
        seekdir(dir, places[i]);
        struct dirent *entry = readdir(dir);
        wrong += entry == NULL || strcmp(entry->d_name, seen[i]) != 0;
    }
    SHOW("wrong %d", wrong);
    seekdir(dir, places[count]);
    SHOW("end %d", readdir(dir) == NULL);
    rewinddir(dir);
    SHOW("rewound %d", strcmp(readdir(dir)->d_name, seen[0]) == 0);
}

CASE(dot_entries_and_inodes)
{
    struct stat here, above;
    stat(in_tree("text"), &here);
    stat(in_tree(""), &above);
    DIR *dir = opendir(in_tree("text"));
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct stat status;
        fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW);
        OK(status.st_ino == entry->d_ino);
        if (strcmp(entry->d_name, ".") == 0) {
            SHOW("dot %d", entry->d_ino == here.st_ino);
        }
        if (strcmp(entry->d_name, "..") == 0) {
            SHOW("dot dot %d", entry->d_ino == above.st_ino);
        }
    }
}

CASE(dirfd_opens_and_stats)
{
    DIR *dir = opendir(in_tree("text"));
    char buffer[20] = {0};
    int fd = openat(dirfd(dir), "x", O_RDONLY);
    SHOW("read %zd %s", read(fd, buffer, 10), buffer);
    struct stat status;
    OK(fstat(dirfd(dir), &status) == 0);
    show_stat("directory", &status);
    SHOW("fchdir %d %d", fchdir(dirfd(dir)), access("hello.txt", R_OK));
    SHOW("close %d", closedir(dir));
}

CASE(fdopendir)
{
    int fd = open(in_tree("text"), O_RDONLY | O_DIRECTORY);
    DIR *dir = fdopendir(fd);
    SHOW("dirfd %d", dirfd(dir) == fd);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        collect(entry->d_name);
    }
    show_collected("fdopendir");
    closedir(dir);
    FAILS(EBADF, fcntl(fd, F_GETFD));
    FAILS(ENOTDIR, fdopendir(open(in_tree("text/x"), O_RDONLY)));
    FAILS(EBADF, fdopendir(999));
}

CASE(opendir_failures)
{
    FAILS(ENOENT, opendir(in_tree("none")));
    FAILS(ENOENT, opendir(""));
    FAILS(ENOTDIR, opendir(in_tree("text/x")));
    FAILS(ENOTDIR, opendir(in_tree("links/to_file")));
    FAILS(ELOOP, opendir(in_tree("links/loop_a")));
    FAILS(ENOENT, opendir(in_tree("links/dangling")));
}

CASE(opendir_relative_and_links)
{
    OK(chdir(in_tree("text")) == 0);
    const char *names[] = {".", "sub", "../hard", "../links/to_dir", "./", NULL};
    for (int i = 0; names[i] != NULL; i++) {
        DIR *dir = opendir(names[i]);
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
            collect(entry->d_name);
        }
        closedir(dir);
        show_collected(names[i]);
    }
}

static int text_only(const struct dirent *entry)
{
    return strstr(entry->d_name, ".txt") != NULL;
}

CASE(scandir_family)
{
    struct dirent **list;
    int count = scandir(in_tree("text"), &list, text_only, alphasort);
    for (int i = 0; i < count; i++) {
        SHOW("%d %s", list[i]->d_type, list[i]->d_name);
    }
    struct dirent64 **large;
    SHOW("scandir64 %d", scandir64(in_tree("many"), &large, NULL, alphasort64));
    SHOW("versionsort %d", scandir(in_tree("many"), &list, NULL, versionsort));
    SHOW("third %s", list[2]->d_name);
    int dir = open(in_tree("img"), O_RDONLY);
    SHOW("scandirat %d", scandirat(dir, "cat", &list, NULL, alphasort));
    SHOW("third %s", list[2]->d_name);
    FAILS(ENOENT, scandir(in_tree("none"), &list, NULL, alphasort));
}

CASE(getdents64_call)
{
    char buffer[32768];
    int fd = open(in_tree("text"), O_RDONLY | O_DIRECTORY);
    for (ssize_t bytes; (bytes = getdents64(fd, buffer, sizeof(buffer))) > 0;) {
        for (ssize_t at = 0; at < bytes;) {
            struct dirent64 *entry = (struct dirent64 *) (buffer + at);
            collect(entry->d_name);
            at += entry->d_reclen;
        }
    }
    show_collected("getdents64");
    lseek(fd, 0, SEEK_SET);
    SHOW("again %d", getdents64(fd, buffer, sizeof(buffer)) > 0);
    FAILS(EINVAL, getdents64(open(in_tree("text"), O_RDONLY), buffer, 8));
    FAILS(ENOTDIR, getdents64(open(in_tree("text/x"), O_RDONLY), buffer, sizeof(buffer)));
}

CASE(two_streams_on_one_directory)
{
    DIR *first = opendir(in_tree("many")), *second = opendir(in_tree("many"));
    int same = 0;
    for (int i = 0; i < 100; i++) {
        same += strcmp(readdir(first)->d_name, readdir(second)->d_name) == 0;
    }
    closedir(first);
    int rest = 0;
    while (readdir(second) != NULL) {
        rest++;
    }
    SHOW("same %d rest %d", same, rest);
}

CASE(glob_family)
{
    glob_t found;
    SHOW("glob %d", glob(in_tree("text/*.txt"), 0, NULL, &found));
    for (size_t i = 0; i < found.gl_pathc; i++) {
        SHOW("%s", found.gl_pathv[i]);
    }
    SHOW("mark %d", glob(in_tree("[hl]*"), GLOB_MARK, NULL, &found));
    for (size_t i = 0; i < found.gl_pathc; i++) {
        SHOW("%s", found.gl_pathv[i]);
    }
    SHOW("brace %d", glob(in_tree("{text,hard}/{x,one,none}"), GLOB_BRACE, NULL, &found));
    SHOW("count %zu", found.gl_pathc);
    SHOW("onlydir %d", glob(in_tree("*"), GLOB_ONLYDIR, NULL, &found));
    SHOW("count %zu", found.gl_pathc);
    SHOW("none %d", glob(in_tree("no*"), GLOB_ERR, NULL, &found));
    glob64_t large;
    SHOW("glob64 %d", glob64(in_tree("many/f000??.dat"), 0, NULL, &large));
    SHOW("count %zu", large.gl_pathc);
    OK(chdir(in_tree("")) == 0);
    SHOW("relative %d", glob("te*/[hx]*", 0, NULL, &found));
    SHOW("first %s", found.gl_pathv[0]);
}

CASE(wordexp_of_a_glob)
{
    wordexp_t words;
    SHOW("wordexp %d", wordexp("$T/img/*/*.png", &words, 0));
    SHOW("count %zu", words.we_wordc);
}

static int visit(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    char line[PATH_MAX];
    snprintf(line, sizeof(line), "%d %d %lld %s", kind, place->level,
             S_ISREG(status->st_mode) ? (long long) status->st_size : -1, path);
    collect(line);
    return 0;
}

static int visit64(const char *path, const struct stat64 *status, int kind, struct FTW *place)
{
    collect(path);
    return 0;
}

/* Sees that the entry is here by its name, in the directory that the walk is in. */
static int visit_here(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    struct stat own;
    OK(lstat(path + place->base, &own) == 0 && own.st_ino == status->st_ino);
    collect(path + place->base);
    return 0;
}

static int visit_old(const char *path, const struct stat *status, int kind)
{
    collect(path);
    return 0;
}

CASE(nftw_and_ftw)
{
    SHOW("physical %d", nftw(in_tree("text"), visit, 10, FTW_PHYS));
    show_collected("text");
    SHOW("depth %d", nftw(in_tree("links"), visit, 5, FTW_PHYS | FTW_DEPTH));
    show_collected("links");
    SHOW("chdir %d", nftw(in_tree("deep"), visit, 3, FTW_PHYS | FTW_CHDIR));
    show_collected("deep");
    SHOW("here %d", nftw(in_tree("hard"), visit_here, 3, FTW_PHYS | FTW_CHDIR));
    show_collected("here");
    SHOW("nftw64 %d", nftw64(in_tree("img"), visit64, 10, 0));
    show_collected("img");
    SHOW("ftw %d", ftw(in_tree("hard"), visit_old, 10));
    show_collected("hard");
    FAILS(ENOENT, nftw(in_tree("none"), visit, 10, 0));
    OK(chdir(in_tree("deep")) == 0);
    SHOW("relative %d", nftw("level00", visit, 3, FTW_PHYS | FTW_CHDIR));
    show_collected("relative");
    SHOW("back %d", access("here.txt", F_OK) != 0 && access("level00/here.txt", F_OK) == 0);
    SHOW("by a link %d", nftw(in_tree("links/to_dir"), visit, 10, FTW_DEPTH));
    show_collected("by a link");
    FAILS(ELOOP, nftw(in_tree("links"), visit, 10, 0));
}

CASE(listing_after_fork)
{
    fflush(stdout);
    DIR *dir = opendir(in_tree("many"));
    for (int i = 0; i < 10; i++) {
        readdir(dir);
    }
    if (fork() == 0) {
        int rest = 0;
        while (readdir(dir) != NULL) {
            rest++;
        }
        SHOW("child has more %d", rest > 0);
        _exit(0);
    }
    int status;
    wait(&status);
    SHOW("parent has more %d", readdir(dir) != NULL);
}
