/* Descriptors: reading in every way, seeking, duplicating, waiting, copying in the kernel, closing. */
#include "calls.h"

#include <linux/close_range.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

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
}

CASE(dup_shares_everything_but_cloexec)
{
    int fd = open(in_r("small"), O_RDONLY | O_CLOEXEC), other = dup(fd);
    TELL(other - fd);
    TELL(fcntl(fd, F_GETFD));
    TELL(fcntl(other, F_GETFD));
    TELL(lseek(fd, 6, SEEK_SET));
    show_next("other", other);
    TELL(lseek(fd, 0, SEEK_CUR));
    TELL(close(fd));
    TELL(lseek(other, 0, SEEK_SET));
    show_next("stays", other);
    TELL(dup(-1));
    TELL(dup(999));
}

CASE(dup2_forms)
{
    int fd = reader("small"), other = reader("x");
    TELL(dup2(fd, other) - other);
    show_next("other", other);
    TELL(dup2(fd, fd) - fd);
    TELL(dup2(fd, 100));
    TELL(dup2(-1, other));
    TELL(dup2(fd, -1));
    TELL(dup2(fd, 1 << 30));
    TELL(lseek(other, 0, SEEK_CUR));
    TELL(dup2(open("/dev/null", O_RDONLY), 100));
    show_next("replaced", 100);
    TELL(dup2(fd, open(in_d("new"), O_WRONLY | O_CREAT, 0644)) > 0 ? 0 : -1);
    show_path("made", in_d("new"));
}

CASE(dup3_forms)
{
    int fd = reader("small");
    TELL(dup3(fd, 50, O_CLOEXEC));
    TELL(fcntl(50, F_GETFD));
    TELL(dup3(fd, 51, 0));
    TELL(fcntl(51, F_GETFD));
    TELL(dup3(fd, fd, 0));
    TELL(dup3(fd, 52, O_NONBLOCK));
    TELL(dup3(-1, 52, 0));
    TELL(dup3(fd, -1, 0));
    show_next("fifty", 50);
    show_next("fifty-one", 51);
}

CASE(dup_over_standard_streams)
{
    int saved = dup(0);
    OK(dup2(reader("lines"), 0) == 0);
    char line[100];
    SHOW("%s", fgets(line, sizeof(line), stdin));
    TELL(getchar());
    OK(dup2(saved, 0) == 0);
    TELL(close(saved));
}

CASE(descriptors_are_the_lowest)
{
    int first = reader("x");
    TELL(reader("small") - first);
    TELL(open(in_r("sub"), O_RDONLY) - first);
    TELL(open(in_r("x"), O_PATH) - first);
    TELL(close(first + 1));
    TELL(reader("x") - first);
    TELL(open("/dev/null", O_RDONLY) - first);
    TELL(close(first));
    TELL(dup(first + 1) - first);
    TELL(open(in_d("new"), O_WRONLY | O_CREAT, 0644) - first);
    int pair[2];
    TELL(pipe(pair));
    TELL(pair[0] - first);
}

CASE(poll_is_always_ready)
{
    struct pollfd polls[3] = {{reader("small"), POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0},
                              {reader("empty"), POLLIN, 0}, {-1, POLLIN, 7}};
    TELL(poll(polls, 3, 1000));
    SHOW("%x %x %x", polls[0].revents, polls[1].revents, polls[2].revents);
    polls[0].events = 0;
    polls[1].events = POLLPRI;
    TELL(poll(polls, 2, 0));
    SHOW("%x %x", polls[0].revents, polls[1].revents);
    polls[0].events = POLLRDNORM | POLLRDBAND | POLLWRNORM | POLLWRBAND;
    TELL(poll(polls, 1, 0));
    SHOW("%x", polls[0].revents);
    int gone = dup(polls[0].fd);
    close(gone);
    polls[1].fd = gone;
    TELL(poll(polls, 2, 0));
    SHOW("%x", polls[1].revents);
    struct timespec none = {0, 0};
    TELL(ppoll(polls, 1, &none, NULL));
}

CASE(poll_beside_a_pipe)
{
    int pair[2];
    OK(pipe(pair) == 0);
    struct pollfd polls[2] = {{pair[0], POLLIN, 0}, {reader("small"), POLLIN, 0}};
    TELL(poll(polls, 2, -1));
    SHOW("%x %x", polls[0].revents, polls[1].revents);
    OK(write(pair[1], "x", 1) == 1);
    TELL(poll(polls, 2, -1));
    SHOW("%x %x", polls[0].revents, polls[1].revents);
}

CASE(select_is_always_ready)
{
    fd_set reads, writes, excepts;
    int fd = reader("small"), pair[2];
    OK(pipe(pair) == 0);
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    FD_ZERO(&excepts);
    FD_SET(fd, &reads);
    FD_SET(fd, &writes);
    FD_SET(fd, &excepts);
    FD_SET(pair[0], &reads);
    TELL(select(pair[0] + 1, &reads, &writes, &excepts, NULL));
    SHOW("%d %d %d %d", FD_ISSET(fd, &reads), FD_ISSET(fd, &writes), FD_ISSET(fd, &excepts), FD_ISSET(pair[0], &reads));
    struct timespec none = {0, 0};
    TELL(pselect(fd + 1, &reads, NULL, NULL, &none, NULL));
    TELL(select(-1, &reads, NULL, NULL, NULL));
}

CASE(epoll_refuses_files)
{
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0), fd = reader("small");
    TELL(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    TELL(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    TELL(epoll_ctl(set, EPOLL_CTL_DEL, fd, &event));
    TELL(epoll_ctl(set, EPOLL_CTL_ADD, open(in_r("sub"), O_RDONLY), &event));
    TELL(epoll_ctl(set, EPOLL_CTL_ADD, -1, &event));
    TELL(epoll_ctl(set, EPOLL_CTL_ADD, open(in_d("new"), O_RDWR | O_CREAT, 0644), &event));
    TELL(epoll_ctl(fd, EPOLL_CTL_ADD, set, &event));
}

CASE(sendfile_to_files)
{
    off_t at = 100;
    int in = reader("mid.bin"), out = open("out", O_RDWR | O_CREAT, 0644);
    TELL(sendfile(out, in, &at, 1000));
    TELL(at);
    TELL(lseek(in, 0, SEEK_CUR));
    TELL(sendfile(out, in, NULL, 50));
    TELL(lseek(in, 0, SEEK_CUR));
    at = 200000;
    TELL(sendfile(out, in, &at, 100));
    TELL(sendfile(out, in, &at, 100));
    at = -1;
    TELL(sendfile(out, in, &at, 100));
    TELL(sendfile(out, in, NULL, 0));
    TELL(sendfile(out, -1, NULL, 10));
    TELL(sendfile(-1, in, NULL, 10));
    TELL(sendfile(in, in, NULL, 10));
    TELL(sendfile(reader("x"), in, NULL, 10));
    TELL(lseek(out, 0, SEEK_END));
}

CASE(sendfile_to_a_pipe_and_an_output)
{
    char text[100] = {0};
    int pair[2], in = reader("small"), out = open(in_d("out"), O_RDWR | O_CREAT, 0644);
    OK(pipe(pair) == 0);
    TELL(sendfile(pair[1], in, NULL, 100));
    TELL(read(pair[0], text, 100));
    SHOW("%s", text);
    off_t at = 6;
    TELL(sendfile(out, in, &at, 100));
    TELL(close(out));
    show_path("out", in_d("out"));
    in = open(in_d("out"), O_RDONLY);
    TELL(sendfile(pair[1], in, NULL, 100));
}

CASE(copy_file_range_forms)
{
    loff_t from = 6, to = 3;
    int in = reader("small"), out = open("out", O_RDWR | O_CREAT, 0644);
    TELL(copy_file_range(in, &from, out, &to, 100, 0));
    SHOW("%ld %ld", (long) from, (long) to);
    TELL(copy_file_range(in, NULL, out, NULL, 5, 0));
    TELL(lseek(in, 0, SEEK_CUR));
    TELL(lseek(out, 0, SEEK_CUR));
    TELL(copy_file_range(in, &from, out, NULL, 100, 0));
    TELL(copy_file_range(in, NULL, out, NULL, 5, 1));
    TELL(copy_file_range(out, NULL, in, NULL, 5, 0));
    TELL(copy_file_range(in, NULL, -1, NULL, 5, 0));
    TELL(copy_file_range(-1, NULL, out, NULL, 5, 0));
    TELL(copy_file_range(open(in_r("sub"), O_RDONLY), NULL, out, NULL, 5, 0));
    show_path("out", "out");
}

CASE(copy_file_range_into_an_output)
{
    int in = reader("mid.bin"), out = open(in_d("out"), O_RDWR | O_CREAT, 0644);
    long all = 0, got;
    while ((got = copy_file_range(in, NULL, out, NULL, 1 << 20, 0)) > 0) {
        all += got;
    }
    SHOW("%ld %s", all, got < 0 ? strerrorname_np(errno) : "");
    TELL(close(out));
}

CASE(splice_and_tee)
{
    char text[100] = {0};
    int one[2], two[2], in = reader("small");
    loff_t at = 6;
    OK(pipe(one) == 0 && pipe(two) == 0);
    TELL(splice(in, NULL, one[1], NULL, 5, 0));
    TELL(lseek(in, 0, SEEK_CUR));
    TELL(tee(one[0], two[1], 100, 0));
    TELL(read(one[0], text, 100));
    SHOW("%s", text);
    TELL(splice(in, &at, one[1], NULL, 100, SPLICE_F_MOVE));
    TELL(at);
    TELL(splice(one[0], NULL, open("out", O_WRONLY | O_CREAT, 0644), NULL, 100, 0));
    show_path("out", "out");
    TELL(splice(two[0], NULL, in, NULL, 100, 0));
    TELL(splice(in, NULL, reader("x"), NULL, 100, 0));
    TELL(splice(in, NULL, one[1], &at, 100, 0));
    SHOW("%zd %zd", tee(in, one[1], 100, 0), tee(one[0], in, 100, 0));
    TELL(splice(in, NULL, one[1], NULL, 100, 1 << 20));
    TELL(vmsplice(in, &(struct iovec){text, 1}, 1, 0));
}

CASE(splice_into_an_output)
{
    int pair[2], out = open(in_d("out"), O_RDWR | O_CREAT, 0644);
    OK(pipe(pair) == 0);
    TELL(splice(reader("small"), NULL, pair[1], NULL, 100, 0));
    TELL(splice(pair[0], NULL, out, NULL, 100, 0));
    TELL(close(out));
    show_path("out", in_d("out"));
}

CASE(close_forms)
{
    int fd = reader("small"), other = dup(fd);
    TELL(close(fd));
    TELL(close(fd));
    TELL(read(fd, &fd, 1));
    show_next("other", other);
    TELL(close(-1));
    TELL(close(1 << 20));
    TELL(syscall(SYS_close, other));
    TELL(fcntl(other, F_GETFD));
    show_next("again", reader("x"));
}

CASE(close_range_closes)
{
    int fds[6];
    for (int i = 0; i < 6; i++) {
        fds[i] = i % 2 ? reader("small") : open("/dev/null", O_RDONLY);
    }
    TELL(close_range(fds[1], fds[3], 0));
    for (int i = 0; i < 6; i++) {
        SHOW("%d: %d", i, fcntl(fds[i], F_GETFD));
    }
    show_next("five", fds[5]);
    TELL(close_range(fds[4], ~0U, CLOSE_RANGE_CLOEXEC));
    SHOW("%d %d", fcntl(fds[4], F_GETFD), fcntl(fds[5], F_GETFD));
    show_next("new", reader("small"));
    TELL(close_range(fds[0], ~0U, CLOSE_RANGE_UNSHARE));
    show_next("after all are closed", reader("small"));
    TELL(close_range(fds[0], ~0U, 77));
}

CASE(closefrom_closes)
{
    int fd = reader("small"), other = reader("x"), made = open(in_d("f"), O_WRONLY | O_CREAT, 0644);
    OK(write(made, "text", 4) == 4);
    closefrom(other);
    SHOW("%d %d %d", fcntl(fd, F_GETFD), fcntl(other, F_GETFD), fcntl(made, F_GETFD));
    show_next("stays", fd);
    show_path("made", in_d("f"));
    closefrom(3);
    show_path("again", in_r("small"));
}

CASE(close_all_by_a_loop)
{
    reader("small");
    for (int i = 3; i < 70000; i++) {
        close(i);
    }
    show_path("again", in_r("small"));
    TELL(open(in_r("sub"), O_RDONLY) - 3);
}

static int passed(int fd)
{
    int pair[2], got = -1;
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    TELL(sendmsg(pair[0], &message, 0));
    message.msg_controllen = sizeof(control);
    TELL(recvmsg(pair[1], &message, 0));
    head = CMSG_FIRSTHDR(&message);
    if (head != NULL) {
        memcpy(&got, CMSG_DATA(head), sizeof(got));
    }
    return got;
}

CASE(passed_over_a_socket)
{
    int fd = reader("small");
    OK(lseek(fd, 6, SEEK_SET) == 6);
    int got = passed(fd);
    show_next("passed", got);
    struct stat status;
    TELL(fstat(got, &status));
    SHOW("%ld", (long) status.st_size);
    show_next("own", reader("small"));
}

CASE(passed_directory)
{
    int got = passed(open(in_r("sub"), O_RDONLY | O_DIRECTORY));
    show_next("inner", openat(got, "inner", O_RDONLY));
}

CASE(passed_output)
{
    int fd = open(in_d("f"), O_RDWR | O_CREAT, 0644), got = passed(fd);
    TELL(write(got, "by the passed one", 17));
    TELL(lseek(fd, 0, SEEK_CUR));
    TELL(close(fd));
    TELL(close(got));
    show_path("f", in_d("f"));
}

CASE(pidfd_getfd_of_itself)
{
    int self = syscall(SYS_pidfd_open, getpid(), 0), fd = reader("small");
    int got = syscall(SYS_pidfd_getfd, self, fd, 0);
    char text[20];
    ssize_t count = got < 0 ? -1 : read(got, text, 5);
    SHOW("right or refused %d", count == 5 ? memcmp(text, "hello", 5) == 0 : count == -1);
}

CASE(fd_flags_of_open)
{
    TELL(fcntl(open(in_r("small"), O_RDONLY | O_CLOEXEC), F_GETFD));
    TELL(fcntl(open(in_r("small"), O_RDONLY), F_GETFD));
    TELL(fcntl(open(in_r("sub"), O_RDONLY | O_CLOEXEC), F_GETFD));
    TELL(fcntl(open(in_r("small"), O_PATH | O_CLOEXEC), F_GETFD));
    TELL(fcntl(open(in_d("n"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644), F_GETFD));
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
