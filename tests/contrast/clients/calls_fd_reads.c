/* Reading in every way, seeking, and what a reader refuses. */
#include "calls.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>

CASE(read_in_pieces)
{
    char text[20000];
    int fd = reader("lines");
    size_t sizes[] = {1, 2, 3, 22, 23, 24, 4095, 4096, 4097, 10000};
    for (int i = 0; i < 10; i++) {
        ssize_t got = read(fd, text, sizes[i]);
        SHOW("%zu: %zd %lx", sizes[i], got, sum(text, got));
    }
    TELL(lseek(fd, 0, SEEK_CUR));
}

CASE(read_at_the_end)
{
    char text[100];
    int fd = reader("small");
    TELL(read(fd, text, 100));
    TELL(read(fd, text, 100));
    TELL(lseek(fd, 1000, SEEK_SET));
    TELL(read(fd, text, 100));
    TELL(lseek(fd, 11, SEEK_SET));
    TELL(read(fd, text, 100));
    TELL(read(fd, text, 0));
    TELL(read(reader("empty"), text, 100));
}

CASE(read_bad_arguments)
{
    char text[100];
    int fd = reader("small");
    TELL(read(fd, (void *) 16, 5));
    TELL(read(fd, NULL, 0));
    TELL(read(-1, text, 5));
    TELL(read(open(in_r("sub"), O_RDONLY), text, 5));
    TELL(pread(fd, text, 5, -1));
    TELL(pread(fd, (void *) 16, 5, 0));
    TELL(lseek(fd, 0, SEEK_CUR));
}

CASE(pread_leaves_the_offset)
{
    char text[100];
    int fd = reader("mid.bin");
    OK(lseek(fd, 77, SEEK_SET) == 77);
    off_t places[] = {0, 1, 4095, 4096, 65535, 200000, 200002, 200003, 300000};
    for (int i = 0; i < 9; i++) {
        memset(text, 0, sizeof(text));
        ssize_t got = pread(fd, text, 100, places[i]);
        SHOW("%ld: %zd %lx", places[i], got, sum(text, 100));
    }
    TELL(lseek(fd, 0, SEEK_CUR));
}

CASE(readv_forms)
{
    char text[64] = {0};
    struct iovec parts[4] = {{text, 3}, {text + 10, 0}, {NULL, 0}, {text + 20, 30}};
    int fd = reader("lines");
    TELL(readv(fd, parts, 4));
    SHOW("%.3s %.30s", text, text + 20);
    TELL(readv(fd, parts, 0));
    TELL(readv(fd, parts, -1));
    TELL(readv(fd, parts, 2000));
    TELL(readv(fd, NULL, 1));
    parts[1].iov_len = (size_t) -1;
    TELL(readv(fd, parts, 2));
    parts[1].iov_len = 5;
    parts[1].iov_base = (void *) 16;
    TELL(readv(fd, parts, 2));
    TELL(lseek(fd, 0, SEEK_CUR) > 0 ? 0 : -1);
}

CASE(readv_of_many_parts)
{
    static char text[1024][8];
    struct iovec parts[1024];
    for (int i = 0; i < 1024; i++) {
        parts[i] = (struct iovec){text[i], i % 8};
    }
    int fd = reader("lines");
    TELL(readv(fd, parts, 1024));
    SHOW("%lx", sum(text, sizeof(text)));
    TELL(readv(fd, parts, 1025));
}

CASE(preadv_forms)
{
    char text[64] = {0};
    struct iovec parts[2] = {{text, 10}, {text + 20, 10}};
    int fd = reader("small");
    TELL(preadv(fd, parts, 2, 6));
    SHOW("%s", text);
    TELL(preadv(fd, parts, 2, -1));
    TELL(preadv64(fd, parts, 2, 100));
    TELL(preadv(fd, parts, 2, 0));
    TELL(lseek(fd, 0, SEEK_CUR));
}

CASE(preadv2_flags)
{
    char text[64] = {0};
    struct iovec part = {text, 5};
    int fd = reader("small");
    TELL(preadv2(fd, &part, 1, 0, 0));
    TELL(preadv2(fd, &part, 1, 0, RWF_HIPRI));
    TELL(preadv2(fd, &part, 1, -1, 0));
    TELL(lseek(fd, 0, SEEK_CUR));
    TELL(preadv2(fd, &part, 1, 0, RWF_APPEND));
    TELL(preadv2(fd, &part, 1, 0, 0x4000));
    TELL(preadv2(fd, &part, 1, -2, 0));
    TELL(preadv2(fd, &part, -1, 0, 0));
    TELL(preadv2(fd, &part, 1, 0, RWF_DSYNC));
    TELL(preadv2(fd, &part, 1, 0, RWF_SYNC));
    TELL(preadv64v2(fd, &part, 1, 3, 0));
    SHOW("%s", text);
}

CASE(preadv2_nowait)
{
    char text[8] = {0};
    struct iovec part = {text, 5};
    int fd = reader("small");
    OK(read(fd, text, 5) == 5); /* it is in memory now */
    ssize_t got = preadv2(fd, &part, 1, 0, RWF_NOWAIT);
    SHOW("%d", got == 5 || (got == -1 && (errno == EAGAIN || errno == EOPNOTSUPP)));
}

CASE(lseek_forms)
{
    int fd = reader("small");
    TELL(lseek(fd, 5, SEEK_SET));
    TELL(lseek(fd, 3, SEEK_CUR));
    TELL(lseek(fd, -2, SEEK_CUR));
    TELL(lseek(fd, -100, SEEK_CUR));
    TELL(lseek(fd, 0, SEEK_CUR));
    TELL(lseek(fd, -2, SEEK_END));
    TELL(lseek(fd, 100, SEEK_END));
    TELL(lseek(fd, -100, SEEK_END));
    TELL(lseek(fd, -1, SEEK_SET));
    TELL(lseek(fd, 0, 77));
    TELL(lseek(fd, 5000000000L, SEEK_SET));
    show_next("far", fd);
    TELL(lseek64(fd, 1, SEEK_SET));
    show_next("near", fd);
    TELL(lseek(-1, 0, SEEK_SET));
}

CASE(lseek_data_and_hole)
{
    int fd = reader("mid.bin");
    TELL(lseek(fd, 0, SEEK_DATA));
    TELL(lseek(fd, 100000, SEEK_DATA));
    TELL(lseek(fd, 0, SEEK_HOLE));
    TELL(lseek(fd, 100000, SEEK_HOLE));
    TELL(lseek(fd, 200002, SEEK_HOLE));
    TELL(lseek(fd, 200003, SEEK_HOLE));
    TELL(lseek(fd, 200003, SEEK_DATA));
    TELL(lseek(fd, 999999, SEEK_DATA));
    TELL(lseek(fd, -1, SEEK_DATA));
    TELL(lseek(fd, -1, SEEK_HOLE));
    TELL(lseek(fd, 0, SEEK_CUR));
    TELL(lseek(reader("empty"), 0, SEEK_DATA));
    TELL(lseek(reader("empty"), 0, SEEK_HOLE));
}

CASE(lseek_over_a_sparse_file)
{
    int fd = reader("sparse.bin");
    char text[5] = {0};
    SHOW("at the start %d", lseek(fd, 0, SEEK_DATA) == 0);
    SHOW("covers %d", lseek(fd, 1 << 20, SEEK_DATA) == 1 << 20);
    SHOW("before the end %d", lseek(fd, 0, SEEK_HOLE) <= 3 << 20);
    TELL(lseek(fd, 3 << 20, SEEK_HOLE));
    TELL(pread(fd, text, 4, 1 << 20));
    SHOW("%s", text);
    TELL(pread(fd, text, 4, 2 << 20));
    SHOW("%d", text[0] | text[1] | text[2] | text[3]);
    struct stat status;
    OK(fstat(fd, &status) == 0);
    SHOW("%ld", (long) status.st_size);
}

CASE(lseek_of_a_hole_in_an_output)
{
    int fd = open(in_d("f"), O_RDWR | O_CREAT, 0644);
    TELL(ftruncate(fd, 1 << 20));
    TELL(pwrite(fd, "x", 1, 1 << 19));
    TELL(lseek(fd, 0, SEEK_DATA));
    TELL(lseek(fd, 0, SEEK_HOLE));
    TELL(lseek(fd, 1 << 19, SEEK_DATA));
    TELL(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 19, 4096));
    TELL(lseek(fd, 0, SEEK_DATA));
    TELL(close(fd));
}

CASE(write_to_a_reader)
{
    struct iovec part = {"x", 1};
    int fd = reader("small");
    TELL(write(fd, "x", 1));
    TELL(pwrite(fd, "x", 1, 0));
    TELL(writev(fd, &part, 1));
    TELL(pwritev(fd, &part, 1, 0));
    TELL(pwritev2(fd, &part, 1, 0, 0));
    TELL(ftruncate(fd, 0));
    TELL(fallocate(fd, 0, 0, 10));
    TELL_CODE(posix_fallocate(fd, 0, 10));
    TELL(dprintf(fd, "x"));
    TELL(write(fd, "x", 0));
}

CASE(sync_calls)
{
    int fd = reader("small");
    TELL(fsync(fd));
    TELL(fdatasync(fd));
    TELL(sync_file_range(fd, 0, 10, 0));
    TELL(sync_file_range(fd, 0, 10, SYNC_FILE_RANGE_WRITE));
    TELL(sync_file_range(fd, -1, 10, 0));
    TELL(sync_file_range(fd, 0, 10, 64));
    TELL(syncfs(fd));
    TELL(fsync(-1));
    TELL(syncfs(-1));
}

CASE(advice)
{
    int fd = reader("small"), pair[2];
    OK(pipe(pair) == 0);
    for (int i = 0; i < 7; i++) {
        SHOW("%d: %s", i, strerrorname_np(posix_fadvise(fd, 0, 0, i)));
    }
    TELL_CODE(posix_fadvise(fd, 0, -1, POSIX_FADV_NORMAL));
    TELL_CODE(posix_fadvise(fd, -5, 5, POSIX_FADV_NORMAL));
    TELL_CODE(posix_fadvise(-1, 0, 0, POSIX_FADV_NORMAL));
    TELL_CODE(posix_fadvise(pair[0], 0, 0, POSIX_FADV_NORMAL));
    TELL(readahead(fd, 0, 100));
    TELL(readahead(fd, 100000, 100));
    TELL(readahead(pair[0], 0, 100));
    TELL(readahead(-1, 0, 100));
    TELL(readahead(fd, 0, (size_t)-1));
    TELL(readahead(fd, -5, 100));
    const long offsets[] = {0, -5, 3, 1 << 20, LONG_MAX}, counts[] = {0, 1, 4096, LONG_MAX, -1};
    for (int i = 0; i < 25; i++) {
        TELL_CODE(posix_fadvise(fd, offsets[i / 5], counts[i % 5], POSIX_FADV_WILLNEED));
    }
    TELL_CODE(posix_fadvise(-1, 0, 0, POSIX_FADV_WILLNEED));
    TELL_CODE(posix_fadvise(pair[0], 0, 0, POSIX_FADV_WILLNEED));
    int path = open(in_r("small"), O_PATH), directory = open(in_r(""), O_RDONLY);
    OK(path >= 0 && directory >= 0);
    TELL_CODE(posix_fadvise(path, 0, 0, POSIX_FADV_WILLNEED));
    TELL(readahead(path, 0, 100));
    TELL(readahead(directory, 0, 100));
    TELL(lseek(fd, 0, SEEK_CUR));
}

CASE(system_calls_read)
{
    char text[100] = {0};
    struct iovec part = {text, 5};
    int fd = reader("small");
    TELL(syscall(SYS_read, fd, text, 5));
    TELL(syscall(SYS_pread64, fd, text, 5, 6));
    TELL(syscall(SYS_lseek, fd, 0, SEEK_CUR));
    TELL(syscall(SYS_readv, fd, &part, 1));
    TELL(syscall(SYS_preadv, fd, &part, 1, 0, 0));
    int other = syscall(SYS_dup, fd);
    TELL(syscall(SYS_lseek, other, 0, SEEK_SET));
    TELL(read(other, text, 5));
    TELL(syscall(SYS_write, fd, "x", 1));
    TELL(syscall(SYS_close, fd));
    TELL(syscall(SYS_read, fd, text, 1));
}

CASE(descriptors_of_a_path_alone)
{
    const char *names[] = {"sub", "small", "to_dir"};
    char data[300];
    for (int i = 0; i < 3; i++) {
        int fd = open(in_r(names[i]), O_PATH | (i == 2 ? O_NOFOLLOW : 0));
        SHOW("%s", names[i]);
        TELL(fsetxattr(fd, "user.x", "1", 1, 0));
        TELL(fremovexattr(fd, "user.x"));
        TELL(fgetxattr(fd, "user.x", data, sizeof(data)));
        TELL(flistxattr(fd, data, sizeof(data)));
        TELL(lseek(fd, 0, SEEK_CUR));
        TELL(lseek(fd, 5, SEEK_SET));
        TELL(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
        TELL(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0));
        TELL(getdents64(fd, data, sizeof(data)));
        TELL(fchmod(fd, 0700));
        TELL(syscall(SYS_fsetxattr, fd, "user.x", "1", 1, 0));
        TELL(syscall(SYS_lseek, fd, 0, SEEK_CUR));
        TELL(syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
    }
    int dir = open(in_r("sub"), O_RDONLY);
    TELL(lseek(dir, 0, SEEK_CUR));
    TELL(fgetxattr(dir, "user.x", data, sizeof(data)));
    TELL(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, dir, 0));
}
