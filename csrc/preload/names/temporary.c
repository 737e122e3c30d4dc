/* Files and directories with names that are free. libc makes them inside, past us: under a mount
 * the names are tried here. */
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "../../client/paths/resolve.h"
#include "../../common/sys.h"
#include "../real.h"

enum { RANDOM_BYTES = 6, TRIES_MAX = 62 * 62 * 62 }; /* as many as libc */

/* Where the random part of a template under a mount is. NULL: libc is to serve it, or to refuse. */
static char *random_part(char *template, int suffix_bytes)
{
    struct fan_target target;
    size_t length = strlen(template);
    if (suffix_bytes < 0 || length < RANDOM_BYTES + (size_t)suffix_bytes)
        return NULL;
    char *part = template + length - (size_t)suffix_bytes - RANDOM_BYTES;
    if (memcmp(part, "XXXXXX", RANDOM_BYTES) != 0 ||
        !fan_locate_change(AT_FDCWD, template, FAN_NOFOLLOW, &target))
        return NULL;
    return part;
}

static uint64_t random_bits(void)
{
    uint64_t bits;
    struct timespec now = {0};
    if (FAN_SYS(getrandom, &bits, sizeof(bits), GRND_NONBLOCK) == sizeof(bits))
        return bits;
    FAN_SYS(clock_gettime, CLOCK_MONOTONIC, &now);
    bits = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)FAN_SYS(gettid) << 48;
    return bits * UINT64_C(0x9e3779b97f4a7c15);
}

static void fill(char part[RANDOM_BYTES])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    uint64_t bits = random_bits();
    for (unsigned i = 0; i < RANDOM_BYTES; i++, bits /= sizeof(letters) - 1)
        part[i] = letters[bits % (sizeof(letters) - 1)];
}

/* Makes a file (flags of open(2)), or a directory (-1), under the first name that is free. What
 * open or mkdir answer; errno is left alone on success. */
static int make_free(char *template, char *part, int flags)
{
    int before = errno;
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        fill(part);
        int made = flags < 0 ? mkdir(template, S_IRWXU)
                             : open(template, flags, S_IRUSR | S_IWUSR);
        if (made >= 0) {
            errno = before;
            return made;
        }
        if (errno != EEXIST)
            break;
    }
    return -1;
}

FAN_EXPORT int mkostemps(char *template, int suffix_bytes, int flags)
{
    char *part = random_part(template, suffix_bytes);
    if (part == NULL)
        return REAL(mkostemps)(template, suffix_bytes, flags);
    return make_free(template, part, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL);
}

FAN_EXPORT int mkstemps(char *template, int suffix_bytes)
{
    return mkostemps(template, suffix_bytes, 0);
}

FAN_EXPORT int mkostemp(char *template, int flags)
{
    return mkostemps(template, 0, flags);
}

FAN_EXPORT int mkstemp(char *template)
{
    return mkostemps(template, 0, 0);
}

FAN_EXPORT char *mkdtemp(char *template)
{
    char *part = random_part(template, 0);
    if (part == NULL)
        return REAL(mkdtemp)(template);
    return make_free(template, part, -1) < 0 ? NULL : template;
}

FAN_ALIAS(mkostemps64, mkostemps);
FAN_ALIAS(mkstemps64, mkstemps);
FAN_ALIAS(mkostemp64, mkostemp);
FAN_ALIAS(mkstemp64, mkstemp);

/* A name that is free now, and is not made. */
static bool find_free(char *template, char *part)
{
    struct stat st;
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        fill(part);
        if (lstat(template, &st) != 0)
            return errno == ENOENT;
    }
    return false;
}

FAN_EXPORT char *mktemp(char *template)
{
    char *part = random_part(template, 0);
    if (part == NULL)
        return REAL(mktemp)(template);
    int before = errno;
    if (find_free(template, part))
        errno = before;
    else
        template[0] = '\0';
    return template;
}

/* Which directory tempnam(3) takes, when that is one of a mount. */
static const char *directory_of(const char *given)
{
    const char *const all[] = {secure_getenv("TMPDIR"), given};
    for (unsigned i = 0; i < 2; i++) {
        struct stat st;
        struct fan_target target;
        if (all[i] != NULL && stat(all[i], &st) == 0 && S_ISDIR(st.st_mode))
            return fan_locate(AT_FDCWD, all[i], 0, &target) ? all[i] : NULL;
    }
    return NULL;
}

FAN_EXPORT char *tempnam(const char *directory, const char *prefix)
{
    char name[PATH_MAX];
    const char *in = fan_job.view_count > 0 ? directory_of(directory) : NULL;
    if (in == NULL)
        return REAL(tempnam)(directory, prefix);
    size_t length = strlen(in);
    while (length > 1 && in[length - 1] == '/')
        length--;
    const char *start = prefix == NULL || prefix[0] == '\0' ? "file" : prefix;
    int bytes = snprintf(name, sizeof(name), "%.*s/%.5sXXXXXX", (int)length, in, start);
    if (bytes < 0 || (size_t)bytes >= sizeof(name)) {
        errno = EINVAL;
        return NULL;
    }
    return find_free(name, name + bytes - RANDOM_BYTES) ? strdup(name) : NULL;
}
