/*
 * What the C and C++ clients share. CASE(name) defines a case; main runs the one named on the
 * command line. What SHOW prints is compared between the two sides. A check that does not hold
 * ends the client with status 1, on the plain side too: then the case itself is wrong.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct contrast_case {
    const char *name;
    void (*run)(void);
    struct contrast_case *next;
};

static struct contrast_case *contrast_cases;
static int contrast_wrong;

#define CASE(NAME)                                                                                 \
    static void case_##NAME(void);                                                                 \
    static struct contrast_case entry_##NAME = {#NAME, case_##NAME, NULL};                         \
    __attribute__((constructor)) static void register_##NAME(void)                                 \
    {                                                                                              \
        entry_##NAME.next = contrast_cases;                                                        \
        contrast_cases = &entry_##NAME;                                                            \
    }                                                                                              \
    static void case_##NAME(void)

#define SHOW(...) (printf(__VA_ARGS__), putchar('\n'), fflush(stdout))

/* The call must hold. */
#define OK(CALL)                                                                                   \
    ((CALL) ? (void) 0                                                                             \
            : (void) (contrast_wrong = 1, printf("%s: errno %s\n", #CALL, strerrorname_np(errno))))

/* The call must give `bad` and leave `code` in errno. */
#define FAILS(CODE, CALL)                                                                          \
    do {                                                                                           \
        errno = 0;                                                                                 \
        bool failed = (long) (CALL) == -1 || (long) (CALL) == 0;                                   \
        int seen = errno;                                                                          \
        printf("%s: %s\n", #CALL, failed ? strerrorname_np(seen) : "success");                     \
        if (!failed || seen != CODE) {                                                             \
            contrast_wrong = 1;                                                                    \
        }                                                                                          \
    } while (0)

/* The path of `name` in the tree ($T), the scratch directory ($W) or the outside links ($O). */
static __attribute__((unused)) const char *join(const char *variable, const char *name)
{
    static char paths[8][PATH_MAX * 2];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", getenv(variable), name);
    return path;
}

static __attribute__((unused)) const char *in_tree(const char *name)
{
    return join("T", name);
}

/* A checksum of bytes. */
static __attribute__((unused)) unsigned long sum(const void *data, size_t bytes)
{
    const unsigned char *at = (const unsigned char *) data;
    unsigned long value = 14695981039346656037UL;
    for (size_t i = 0; i < bytes; i++) {
        value = (value ^ at[i]) * 1099511628211UL;
    }
    return value;
}

static __attribute__((unused)) void show_stat(const char *label, const struct stat *status)
{
    long long bytes = S_ISDIR(status->st_mode) ? -1 : (long long) status->st_size;
    SHOW("%s: mode %o links %lu owner %u:%u size %lld mtime %lld.%09ld", label, status->st_mode,
         (unsigned long) status->st_nlink, status->st_uid, status->st_gid, bytes,
         (long long) status->st_mtim.tv_sec, status->st_mtim.tv_nsec);
}

int main(int argc, char **argv)
{
    for (struct contrast_case *each = contrast_cases; each != NULL; each = each->next) {
        if (argc > 1 && strcmp(each->name, argv[1]) == 0) {
            each->run();
            fflush(stdout);
            return contrast_wrong;
        }
    }
    return 99;
}
