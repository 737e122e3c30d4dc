/* Arguments that a call must refuse, and what it leaves alone when it does. */
#include "client.h"

#include <dirent.h>
#include <linux/close_range.h>
#include <sys/mman.h>
#include <sys/select.h>

CASE(closedir_null)
{
    OK((errno = 0, closedir(NULL)) == -1);
    SHOW("closedir: %s", strerrorname_np(errno));
}

CASE(no_path)
{
    struct stat status;
    struct statx wide;
    int fd = open(in_tree("text/x"), O_RDONLY);
    statx(fd, NULL, AT_EMPTY_PATH, STATX_SIZE, &wide); /* newer kernels allow it */
    FAILS(EFAULT, fstatat(fd, NULL, &status, 0));
    FAILS(EFAULT, fchownat(AT_FDCWD, NULL, 0, 0, 0));
    FAILS(EFAULT, open(NULL, O_RDONLY));
    FAILS(EFAULT, access(NULL, W_OK));
}

CASE(close_range_refused)
{
    char byte;
    int fd = open(in_tree("text/x"), O_RDONLY);
    FAILS(EINVAL, close_range(fd, fd, 1 << 10));
    FAILS(EINVAL, close_range(fd + 1, fd, 0));
    FAILS(EINVAL, close_range(fd + 1, 0, 0));
    OK(pread(fd, &byte, 1, 0) == 1);
    OK(close_range(fd, fd, CLOSE_RANGE_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    OK(close_range(fd, fd, 0) == 0);
    FAILS(EBADF, pread(fd, &byte, 1, 0));
}

CASE(select_error)
{
    fd_set reads, writes, excepts;
    int fd = open(in_tree("text/x"), O_RDONLY), gone = dup(fd);
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    writes = excepts = reads;
    FD_SET(gone, &reads);
    close(gone);
    FAILS(EBADF, select(gone + 1, &reads, &writes, &excepts, NULL) + (errno != EBADF));
    SHOW("left: %d %d %d", FD_ISSET(fd, &reads), FD_ISSET(fd, &writes), FD_ISSET(fd, &excepts));
    FD_CLR(gone, &reads);
    SHOW("ready: %d", select(gone + 1, &reads, &writes, &excepts, NULL));
    SHOW("now: %d %d %d", FD_ISSET(fd, &reads), FD_ISSET(fd, &writes), FD_ISSET(fd, &excepts));
}

CASE(map_validated)
{
    const char *names[] = {"text/hello.txt", "text/lines.txt", "bin/mid.bin", "bin/pattern.bin"};
    for (unsigned i = 0; i < 4; i++) {
        struct stat status;
        int fd = open(in_tree(names[i]), O_RDONLY);
        OK(fstat(fd, &status) == 0);
        void *at = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED_VALIDATE, fd, 0);
        OK(at != MAP_FAILED);
        if (at != MAP_FAILED)
            SHOW("%s: %lx", names[i], sum(at, status.st_size));
        FAILS(EOPNOTSUPP,
              mmap(NULL, status.st_size, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0));
        FAILS(EACCES, mmap(NULL, 1, PROT_WRITE, MAP_SHARED_VALIDATE, fd, 0));
    }
}
