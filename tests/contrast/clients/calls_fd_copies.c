/* Waiting for descriptors, and copying between them in the kernel. */
#include "calls.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

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
