/* Reads what it inherits, with nothing but system calls: linked statically, no preload reaches it.
 *
 *   static_read [-c N] [FD]     copies FD (0) to stdout, N bytes or all
 *   static_read -i [FD]         what fstat, lseek and fcntl say of FD
 *   static_read -m [FD]         the sum of its bytes, mapped
 *   static_read -w [FD]         tries to change it
 *   static_read -x PROGRAM ...  becomes another program
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int copy(int fd, long left)
{
    char buffer[4096];
    while (left != 0) {
        size_t want = left < 0 || left > (long)sizeof(buffer) ? sizeof(buffer) : (size_t)left;
        ssize_t got = read(fd, buffer, want);
        if (got < 0)
            fprintf(stderr, "read: %s\n", strerror(errno));
        if (got <= 0)
            return got < 0;
        write(1, buffer, (size_t)got);
        left -= left > 0 ? got : 0;
    }
    return 0;
}

static int inspect(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return perror("fstat"), 1;
    printf("mode %o owner %u %u size %ld mtime %ld.%09ld offset %ld flags %o fd flags %d\n",
           st.st_mode, st.st_uid, st.st_gid, (long)st.st_size, (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
           (long)lseek(fd, 0, SEEK_CUR), fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    return 0;
}

static int sum(int fd)
{
    struct stat st;
    unsigned long total = 0;
    fstat(fd, &st);
    const unsigned char *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return perror("mmap"), 1;
    for (long i = 0; i < st.st_size; i++)
        total = total * 31 + at[i];
    printf("%lu\n", total);
    return 0;
}

static int change(int fd)
{
    printf("write %ld %s\n", (long)write(fd, "x", 1), strerror(errno));
    printf("ftruncate %d %s\n", ftruncate(fd, 0), strerror(errno));
    return 0;
}

int main(int count, char **words)
{
    long left = -1;
    char what = 'c';
    int at = 1;
    if (at < count && words[at][0] == '-') {
        what = words[at++][1];
        if (what == 'c')
            left = atol(words[at++]);
    }
    if (what == 'x') {
        execvp(words[at], &words[at]);
        return perror(words[at]), 127;
    }
    int fd = at < count ? atoi(words[at]) : 0;
    switch (what) {
    case 'i':
        return inspect(fd);
    case 'm':
        return sum(fd);
    case 'w':
        return change(fd);
    default:
        return copy(fd, left);
    }
}
