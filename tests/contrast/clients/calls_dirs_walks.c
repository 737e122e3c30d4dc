/* Patterns and walks: glob, ftw, nftw. */
#include "calls_dirs.h"

#include <ftw.h>
#include <glob.h>

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
