/*
 * Programs and libraries made real: their places, what these are shown as, and many threads that
 * want the same files at once.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../csrc/client/code/code_dirs.h"
#include "../../csrc/client/code/code_tree.h"
#include "../../tools/fuzz/jobdir.h"
#include "../../tools/fuzz/tree.h"
#include "check.h"

enum { THREADS = 4, CAPACITY = 1 << 18, TURNS = 50, TREES_MAX = 1024 };

static const struct fan_index *tree_index;

/* Ended after the threads: their sanitizer does not see that pages are given back, and takes the
 * next use of an address for a race. */
static struct fan_code_tree *trees[TREES_MAX];
static atomic_uint tree_count;

static const char *path_of(uint64_t id, char path[512])
{
    size_t start = strlen(strcpy(path, JOBDIR_PREFIX "/"));
    int64_t bytes = fan_index_path(tree_index, id, path + start, 512 - start - 1);
    CHECK(bytes >= 0);
    path[start + (size_t)bytes] = '\0';
    return path;
}

static void check_place(const char *rest, const char *expected)
{
    char place[PATH_MAX], shown[PATH_MAX];
    const struct fan_text *job = &fan_job.directory;
    int64_t length = fan_code_place(&fan_job.views[0], rest, place, sizeof(place));
    CHECK(length == (int64_t)strlen(place));
    CHECK(strncmp(place, job->text, job->bytes) == 0);
    CHECK(strncmp(place + job->bytes, "/code/0", 7) == 0);
    CHECK(strcmp(place + job->bytes + 7, expected) == 0);
    CHECK(fan_code_shown(place, shown, sizeof(shown)) > 0);
    CHECK(strncmp(shown, JOBDIR_PREFIX, strlen(JOBDIR_PREFIX)) == 0);
    CHECK(strcmp(shown + strlen(JOBDIR_PREFIX), expected) == 0);
}

static void check_places(void)
{
    char place[PATH_MAX], text[PATH_MAX];
    const char *rest;
    check_place("", "");
    check_place("a/b.so", "/a/b.so");
    check_place("a//./x/../b.so", "/a/b.so");
    CHECK(fan_code_place(&fan_job.views[0], "a/../../b", place, sizeof(place)) == -EXDEV);
    CHECK(fan_code_place(&fan_job.views[0], "a/b", place, 20) == -ENAMETOOLONG);
    CHECK(fan_code_place_of("/elsewhere/a", place, sizeof(place)) == -EXDEV);
    CHECK(fan_code_place_of(JOBDIR_PREFIX "/a", place, sizeof(place)) > 0);
    CHECK(fan_code_match(place, &rest) == &fan_job.views[0] && strcmp(rest, "a") == 0);
    size_t root = strlen(place) - 2;
    place[root] = '7'; /* a mount that is not there */
    CHECK(fan_code_match(place, &rest) == NULL);
    CHECK(fan_code_shown("plain text", text, sizeof(text)) == 10);
    CHECK(fan_code_shown("plain text", text, 10) == -ERANGE);
}

/* Every plain file is real at its place, and a library of the tree is found by its own path. */
static void make_all(void)
{
    char path[512];
    for (uint64_t id = 0; id < tree_index->header->record_count; id++) {
        const struct fan_record *record = fan_index_record(tree_index, id);
        if (!S_ISREG(record->mode) || record->codec != 0)
            continue;
        struct fan_code_tree *tree = fan_code_begin(NULL, false);
        CHECK(tree != NULL);
        int number = fan_code_add(tree, path_of(id, path));
        CHECK(number == 0 && fan_code_add(tree, path) == 0);
        fan_code_close_over(tree, number);
        const struct fan_code_item *item = fan_code_item(tree, 0);
        struct stat st;
        CHECK(strcmp(item->path, path) == 0 && stat(item->place, &st) == 0);
        CHECK((uint64_t)st.st_size == record->logical_size && (st.st_mode & 0777) == 0500);
        unsigned ended = atomic_fetch_add(&tree_count, 1);
        CHECK(ended < TREES_MAX);
        trees[ended] = tree;
    }
}

static void *run_thread(void *argument)
{
    (void)argument;
    char text[40];
    make_all();
    for (int i = 0; i < TURNS; i++) {
        snprintf(text, sizeof(text), "kept %d", i);
        const char *kept = fan_code_keep(text);
        CHECK(kept != NULL && strcmp(kept, text) == 0 && fan_code_keep(text) != NULL);
    }
    return NULL;
}

/* Nothing half made is left. */
static void check_leftovers(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/code", fan_job.directory.text);
    DIR *stream = opendir(path);
    CHECK(stream != NULL);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
        CHECK(entry->d_name[0] == '.' || strcmp(entry->d_name, "0") == 0);
    closedir(stream);
}

static void check_refusals(void)
{
    struct fan_code_tree *tree = fan_code_begin(NULL, false);
    CHECK(tree != NULL);
    CHECK(fan_code_add(tree, JOBDIR_PREFIX) == -EISDIR);
    CHECK(fan_code_add(tree, JOBDIR_PREFIX "/none.so") == -ENOENT);
    CHECK(fan_code_add(tree, "/bin/sh") == -EXDEV);
    CHECK(strcmp(fan_code_outside(tree), "/bin/sh") == 0);
    CHECK(fan_code_count(tree) == 0);
    fan_code_end(tree);
}

static void check_library_path(void)
{
    char expected[PATH_MAX];
    struct fan_code_tree *tree = fan_code_begin(NULL, false);
    CHECK(tree != NULL);
    CHECK(strcmp(fan_code_library_path(tree, "/a;:/none/b:"), "/a;:/none/b:") == 0);
    const char *now = fan_code_library_path(tree, "/a:" JOBDIR_PREFIX ":/b");
    snprintf(expected, sizeof(expected), "/a:%s/code/0:/b", fan_job.directory.text);
    CHECK(now != NULL && strcmp(now, expected) == 0);
    CHECK(fan_code_mentions_mount("/a:" JOBDIR_PREFIX "/x") && !fan_code_mentions_mount("/a"));
    fan_code_end(tree);
}

int main(void)
{
    static uint8_t buffer[CAPACITY] __attribute__((aligned(64)));
    pthread_t threads[THREADS];
    size_t bytes = tree_fill((struct tree_shape){3, 12}, buffer, CAPACITY);
    CHECK(bytes > 0);
    jobdir_attach("test-code-job", buffer, bytes, TREE_PACK_BYTES);
    CHECK(fan_view_dataset(&fan_job.views[0]) != NULL);
    tree_index = &fan_view_dataset(&fan_job.views[0])->index;
    check_places();
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run_thread, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (unsigned i = 0; i < atomic_load(&tree_count); i++)
        fan_code_end(trees[i]);
    check_leftovers();
    check_refusals();
    check_library_path();
    printf("test_code: no fault\n");
    return 0;
}
