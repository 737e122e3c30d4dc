/* fts(3): every option, instruction and error. */
#include "calls.h"

#include <fts.h>

static int by_name(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

static int backwards(const FTSENT **left, const FTSENT **right)
{
    return by_name(right, left);
}

static const char *kind_of(const FTSENT *entry)
{
    static const char *const kinds[] = {"?",   "D",   "DC", "DEFAULT", "DNR", "DOT",    "DP", "ERR",
                                        "F",   "INIT", "NS", "NSOK",    "SL",  "SLNONE", "W"};
    return kinds[entry->fts_info];
}

static void show_entry(const FTS *walk, const FTSENT *entry)
{
    const struct stat *status = entry->fts_info == FTS_NSOK ? NULL : entry->fts_statp;
    bool directory = status != NULL && S_ISDIR(status->st_mode);
    long long bytes = status == NULL ? -2 : directory ? -1 : (long long) status->st_size;
    bool failed = entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR ||
                  entry->fts_info == FTS_NS;
    SHOW("%s %d %s | %s | %s | %d %d | %o %lld %s %s", kind_of(entry), entry->fts_level,
         entry->fts_path, entry->fts_accpath, entry->fts_name,
         (int) (strlen(entry->fts_path) - entry->fts_pathlen),
         (int) (strlen(entry->fts_name) - entry->fts_namelen),
         status == NULL ? 0 : status->st_mode, bytes,
         failed ? strerrorname_np(entry->fts_errno) : "",
         entry->fts_info == FTS_DC ? entry->fts_cycle->fts_path : "");
}

/* What can be done with the access path where the walk says that it is. */
static void use_entry(const FTSENT *entry)
{
    struct stat status;
    int fd = entry->fts_info == FTS_F ? open(entry->fts_accpath, O_RDONLY) : -1;
    if (entry->fts_info == FTS_F) {
        OK(fd >= 0 && fstat(fd, &status) == 0);
        close(fd);
    }
    if (entry->fts_info == FTS_D || entry->fts_info == FTS_SL) {
        OK(lstat(entry->fts_accpath, &status) == 0);
    }
}

static void walk_all(const char *label, char *const *paths, int options)
{
    SHOW("== %s", label);
    FTS *walk = fts_open(paths, options, by_name);
    OK(walk != NULL);
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        show_entry(walk, entry);
        use_entry(entry);
    }
    TELL(errno);
    TELL_POINTER(fts_read(walk));
    TELL(fts_close(walk));
}

static void walk_r(const char *label, const char *name, int options)
{
    char *paths[] = {(char *) in_r(name), NULL};
    walk_all(label, paths, options);
}

CASE(physical)
{
    walk_r("physical", "", FTS_PHYSICAL);
}

CASE(physical_without_chdir)
{
    walk_r("physical", "", FTS_PHYSICAL | FTS_NOCHDIR);
}

CASE(logical)
{
    OK(chdir(in_r("sub")) == 0);
    walk_r("logical", "sub", FTS_LOGICAL);
    char *paths[] = {"../to_dir", "../chain30", "../dangling", "../loop_a", NULL};
    walk_all("links", paths, FTS_LOGICAL);
}

CASE(logical_finds_cycles)
{
    OK(chdir(in_r("")) == 0);
    char *paths[] = {"sub", "up/read/sub", NULL};
    walk_all("logical", paths, FTS_LOGICAL);
    FTS *walk = fts_open((char *[]){(char *) in_r(""), NULL}, FTS_LOGICAL, by_name);
    int cycles = 0;
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        if (entry->fts_info == FTS_D && strcmp(entry->fts_name, "up") == 0) {
            fts_set(walk, entry, FTS_SKIP);
        }
        cycles += entry->fts_info == FTS_DC;
    }
    SHOW("cycles %d", cycles);
    TELL(fts_close(walk));
}

CASE(comfollow)
{
    char *paths[] = {(char *) in_r("to_dir"), (char *) in_r("to_file"), (char *) in_r("dangling"),
                     NULL};
    walk_all("followed", paths, FTS_PHYSICAL | FTS_COMFOLLOW);
    walk_all("not followed", paths, FTS_PHYSICAL);
    walk_all("without chdir", paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR);
}

CASE(nostat)
{
    walk_r("nostat", "sub", FTS_PHYSICAL | FTS_NOSTAT);
    walk_r("nostat and nochdir", "names", FTS_PHYSICAL | FTS_NOSTAT | FTS_NOCHDIR);
    walk_r("nostat logical", "sub", FTS_LOGICAL | FTS_NOSTAT);
}

CASE(seedot)
{
    walk_r("dots", "sub", FTS_PHYSICAL | FTS_SEEDOT);
    walk_r("dots logical", "sub", FTS_LOGICAL | FTS_SEEDOT);
}

CASE(xdev_and_whiteout)
{
    walk_r("xdev", "sub", FTS_PHYSICAL | FTS_XDEV);
    walk_r("whiteout", "sub", FTS_PHYSICAL | FTS_WHITEOUT);
}

CASE(roots)
{
    OK(chdir(in_r("sub")) == 0);
    char *relative[] = {".", "..//sub", "deep/", "./deep//", "inner", "none", "../small/", NULL};
    walk_all("relative", relative, FTS_PHYSICAL);
    walk_all("relative without chdir", relative, FTS_PHYSICAL | FTS_NOCHDIR);
    char *same[] = {"deep", "deep", NULL};
    walk_all("twice", same, FTS_PHYSICAL);
    char here[PATH_MAX];
    SHOW("%s", getcwd(here, sizeof(here)) + strlen(getenv("R")));
}

CASE(roots_in_and_outside)
{
    put(in_w("outside"), "x");
    OK(mkdir(in_w("dir"), 0755) == 0 && symlink(in_r("sub"), in_w("link")) == 0);
    OK(symlink(in_r(""), in_w("dir/in")) == 0);
    char *paths[] = {(char *) in_w("dir"), (char *) in_r("sub/deep"), (char *) in_w("outside"),
                     (char *) in_r("x"), (char *) in_w("link"), NULL};
    walk_all("physical", paths, FTS_PHYSICAL);
    char *links[] = {(char *) in_w("link"), (char *) in_r("x"), NULL};
    walk_all("logical", links, FTS_LOGICAL);
    walk_all("comfollow", links, FTS_PHYSICAL | FTS_COMFOLLOW);
}

CASE(order_of_the_caller)
{
    char *paths[] = {(char *) in_r("sub"), (char *) in_r("names"), (char *) in_r("x"), NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL, backwards);
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        SHOW("%s %s", kind_of(entry), entry->fts_path);
    }
    TELL(fts_close(walk));
    walk = fts_open(paths, FTS_PHYSICAL, NULL);
    int entries = 0;
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL; entries++) {
        if (entry->fts_level == FTS_ROOTLEVEL) {
            SHOW("%s %s", kind_of(entry), entry->fts_path);
        }
    }
    SHOW("entries %d", entries);
    TELL(fts_close(walk));
}

CASE(set_skip)
{
    char *paths[] = {(char *) in_r(""), NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL, by_name);
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        SHOW("%s %s %s", kind_of(entry), entry->fts_path, entry->fts_accpath);
        if (entry->fts_level == 1 && entry->fts_info == FTS_D) {
            TELL(fts_set(walk, entry, FTS_SKIP));
        }
    }
    TELL(fts_close(walk));
}

CASE(set_follow)
{
    OK(chdir(in_r("")) == 0);
    char *paths[] = {".", "to_dir", "to_file", "dangling", NULL};
    for (int i = 0; i < 2; i++) {
        FTS *walk = fts_open(paths, FTS_PHYSICAL | (i == 0 ? 0 : FTS_NOCHDIR), by_name);
        for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
            show_entry(walk, entry);
            if (entry->fts_info == FTS_SL && strncmp(entry->fts_name, "chain", 5) != 0 &&
                strcmp(entry->fts_name, "up") != 0) {
                TELL(fts_set(walk, entry, FTS_FOLLOW));
            }
        }
        TELL(fts_close(walk));
        TELL(access("small", R_OK));
    }
}

CASE(set_again)
{
    char *paths[] = {(char *) in_r("sub"), NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL, by_name);
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        SHOW("%s %s %ld", kind_of(entry), entry->fts_path, entry->fts_number);
        if (entry->fts_number++ == 0) {
            TELL(fts_set(walk, entry, FTS_AGAIN));
        }
    }
    TELL(fts_close(walk));
}

CASE(set_refuses)
{
    FTS *walk = fts_open((char *[]){(char *) in_r("sub"), NULL}, FTS_PHYSICAL, NULL);
    FTSENT *entry = fts_read(walk);
    TELL(fts_set(walk, entry, 5));
    TELL(errno);
    TELL(fts_set(walk, entry, 0));
    TELL(fts_set(walk, entry, FTS_NOINSTR));
    TELL(fts_close(walk));
}

static void show_children(FTS *walk, int how)
{
    FTSENT *child = fts_children(walk, how);
    SHOW("children %d: %s", how, child != NULL ? "some" : strerrorname_np(errno));
    for (; child != NULL; child = child->fts_link) {
        SHOW("  %s %d %s", how == 0 ? kind_of(child) : "", child->fts_level, child->fts_name);
    }
}

static void list_and_read(const char *const root, int options)
{
    char *paths[] = {(char *) root, (char *) in_r("x"), NULL};
    FTS *walk = fts_open(paths, options, by_name);
    show_children(walk, 0);
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        SHOW("%s %s", kind_of(entry), entry->fts_path);
        show_children(walk, FTS_NAMEONLY);
        show_children(walk, 0);
        show_children(walk, entry->fts_namelen % 2 == 0 ? 0 : FTS_NAMEONLY);
        use_entry(entry);
    }
    TELL(fts_close(walk));
}

CASE(children)
{
    list_and_read(in_r("sub"), FTS_PHYSICAL);
    list_and_read(in_r("names"), FTS_PHYSICAL | FTS_COMFOLLOW);
    OK(chdir(in_r("")) == 0);
    list_and_read("sub", FTS_PHYSICAL);
    list_and_read("to_dir", FTS_PHYSICAL | FTS_COMFOLLOW);
    list_and_read("empty_dir", FTS_PHYSICAL);
    TELL(access("small", R_OK));
}

CASE(children_without_chdir)
{
    list_and_read(in_r("to_dir"), FTS_LOGICAL);
    list_and_read(in_r("empty_dir"), FTS_LOGICAL);
}

CASE(children_refuses)
{
    FTS *walk = fts_open((char *[]){(char *) in_r("sub"), NULL}, FTS_PHYSICAL, by_name);
    TELL_POINTER(fts_children(walk, 7));
    fts_read(walk);
    TELL_POINTER(fts_children(walk, FTS_SKIP));
    TELL(fts_close(walk));
}

CASE(children_steer_the_walk)
{
    FTS *walk = fts_open((char *[]){(char *) in_r(""), NULL}, FTS_PHYSICAL, by_name);
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        SHOW("%s %s", kind_of(entry), entry->fts_path);
        if (entry->fts_info != FTS_D || entry->fts_level > 1) {
            continue;
        }
        for (FTSENT *child = fts_children(walk, 0); child != NULL; child = child->fts_link) {
            if (child->fts_info == FTS_F || strcmp(child->fts_name, "many") == 0) {
                fts_set(walk, child, FTS_SKIP);
            }
            if (strcmp(child->fts_name, "to_dir") == 0) {
                fts_set(walk, child, FTS_FOLLOW);
            }
        }
    }
    TELL(fts_close(walk));
}

CASE(open_refuses)
{
    char *empty[] = {(char *) in_r("sub"), "", NULL}, *paths[] = {(char *) in_r("sub"), NULL};
    TELL_POINTER(fts_open(empty, FTS_PHYSICAL, NULL));
    TELL_POINTER(fts_open(paths, 0x1000, NULL));
    TELL_POINTER(fts_open(paths, FTS_PHYSICAL | 0x100, NULL));
}

CASE(closed_on_the_way)
{
    OK(chdir(in_r("sub")) == 0);
    char *paths[] = {"deep", "../many", NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL, by_name);
    for (int i = 0; i < 4; i++) {
        FTSENT *entry = fts_read(walk);
        SHOW("%s %s", kind_of(entry), entry->fts_path);
    }
    TELL(access("inner", R_OK));
    TELL(fts_close(walk));
    TELL(access("inner", R_OK));
    TELL(fts_close(fts_open(paths, FTS_PHYSICAL, by_name)));
    walk = fts_open(paths, FTS_PHYSICAL, by_name);
    fts_read(walk);
    fts_children(walk, 0);
    TELL(fts_close(walk));
    TELL(access("inner", R_OK));
}

CASE(large_file_names)
{
    char *paths[] = {(char *) in_r("sub"), NULL};
    FTS64 *walk = fts64_open(paths, FTS_PHYSICAL, NULL);
    int entries = 0;
    for (FTSENT64 *entry; (entry = fts64_read(walk)) != NULL; entries++) {
        if (entry->fts_level == 0 && entry->fts_info == FTS_D) {
            SHOW("children %d", fts64_children(walk, 0) != NULL);
            TELL(fts64_set(walk, entry, FTS_NOINSTR));
        }
    }
    SHOW("entries %d", entries);
    TELL(fts64_close(walk));
}

CASE(what_is_written_is_walked)
{
    OK(mkdir(in_d("made"), 0755) == 0 && mkdir(in_d("made/below"), 0700) == 0);
    put(in_d("made/file"), "content");
    put(in_d("made/below/file"), "more");
    OK(symlink("file", in_d("made/link")) == 0);
    char *paths[] = {(char *) in_d(""), NULL};
    walk_all("physical", paths, FTS_PHYSICAL);
    walk_all("logical", paths, FTS_LOGICAL);
}

CASE(made_while_walking)
{
    OK(mkdir(in_d("made"), 0755) == 0);
    char *paths[] = {(char *) in_d("made"), NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL, by_name);
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        SHOW("%s %s", kind_of(entry), entry->fts_path);
        if (entry->fts_info == FTS_D && entry->fts_level < 5) {
            char path[PATH_MAX];
            snprintf(path, sizeof(path), "%s/level%d", entry->fts_accpath, entry->fts_level);
            OK(mkdir(path, 0755) == 0);
        }
        if (entry->fts_info == FTS_DP) {
            TELL(rmdir(entry->fts_accpath));
        }
    }
    TELL(fts_close(walk));
}

CASE(removed_while_walking)
{
    OK(mkdir(in_d("made"), 0755) == 0 && mkdir(in_d("made/a"), 0755) == 0);
    OK(mkdir(in_d("made/b"), 0755) == 0 && mkdir(in_d("made/c"), 0755) == 0);
    put(in_d("made/d"), "x");
    FTS *walk = fts_open((char *[]){(char *) in_d("made"), NULL}, FTS_PHYSICAL, by_name);
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        show_entry(walk, entry);
        if (strcmp(entry->fts_name, "a") == 0 && entry->fts_info == FTS_D) {
            OK(rmdir(in_d("made/b")) == 0 && unlink(in_d("made/d")) == 0);
        }
        if (strcmp(entry->fts_name, "c") == 0 && entry->fts_info == FTS_D) {
            OK(rmdir(in_d("made/c")) == 0);
        }
    }
    TELL(fts_close(walk));
}

/* Longer than PATH_MAX: the walk's path grows, and only its access paths can be used. */
CASE(long_paths)
{
    char name[201];
    OK(chdir(getenv("W")) == 0);
    for (int i = 0; i < 30; i++) {
        memset(name, 'a' + i % 26, 200);
        name[200] = '\0';
        OK(mkdir(name, 0755) == 0 && chdir(name) == 0);
    }
    close(open("last", O_WRONLY | O_CREAT, 0644));
    OK(chdir(in_r("sub")) == 0);
    char *paths[] = {(char *) getenv("W"), "inner", NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL, by_name);
    unsigned long total = 0;
    size_t longest = 0;
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        OK(strlen(entry->fts_path) == entry->fts_pathlen);
        total = total * 31 + sum(entry->fts_path, 0) + entry->fts_info;
        longest = entry->fts_pathlen > longest ? entry->fts_pathlen : longest;
        use_entry(entry);
    }
    SHOW("long %d, %lu", longest > 6000, total);
    TELL(fts_close(walk));
    TELL(access("inner", R_OK));
}
