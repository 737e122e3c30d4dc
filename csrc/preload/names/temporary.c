/* Makes files and directories with free names (mkstemp and so on). libc makes them without calling
 * this library, so under a mount the names are tried here. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "../../client/paths/resolve.h"
#include "../../common/sys.h"
#include "../real.h"

enum { RANDOM_BYTES = 6, TRIES_MAX = 62 * 62 * 62 }; /* the numbers of libc */

/* Returns the random part of a template under a mount; NULL if libc must serve or refuse the
 * call. */
static char *random_part(char *template, int suffix_bytes)
{
    struct fan_target target;
    size_t length = strlen(template);
    if (suffix_bytes < 0 || length < RANDOM_BYTES + (size_t)suffix_bytes)
        return NULL;
    char *part = template + length - (size_t)suffix_bytes - RANDOM_BYTES;
    if (memcmp(part, "XXXXXX", RANDOM_BYTES) != 0 ||
        (!fan_locate_change(AT_FDCWD, template, FAN_NOFOLLOW | FAN_NAME, &target) &&
         target.where != FAN_TREE))
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

/* Makes a file (with flags of open(2)), or a directory (-1), with the first free name. Returns the
 * result of open or mkdir; errno is unchanged on success. */
static int make_free(char *template, char *part, int flags)
{
    int before = errno;
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        fill(part);
        int made = flags < 0 ? mkdirat(AT_FDCWD, template, S_IRWXU)
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

FAN_EXPORT char *mkdtemp(char *template)
{
    char *part = random_part(template, 0);
    if (part == NULL)
        return REAL(mkdtemp)(template);
    return make_free(template, part, -1) < 0 ? NULL : template;
}
