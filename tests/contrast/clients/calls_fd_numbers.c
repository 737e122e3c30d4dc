/* Descriptors as numbers: duplicating, closing, passing to others. */
#include "calls.h"

#include <linux/close_range.h>
#include <sys/socket.h>
#include <sys/syscall.h>

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

/* How many descriptors the kernel's table has room for. */
static int table_size(void)
{
    char line[200];
    int size = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && size < 0 && fgets(line, sizeof(line), file) != NULL) {
        sscanf(line, "FDSize: %d", &size);
    }
    fclose(file);
    return size;
}

CASE(table_does_not_grow)
{
    int before = table_size();
    show_path("reads", in_r("small"));
    put(in_d("f"), "written");
    SHOW("grown by %d", table_size() - before);
    IN_CHILD("child", show_path("reads", in_r("x")), SHOW("grown by %d", table_size() - before));
}

CASE(every_number_is_wanted)
{
    int fd = reader("small"), null = open("/dev/null", O_RDONLY), wrong = 0;
    struct stat expected, status;
    OK(fstat(null, &expected) == 0);
    for (int i = null + 1; i < 130; i++) {
        wrong += dup2(null, i) != i;
    }
    show_next("first", fd);
    show_path("new", in_r("x"));
    put(in_d("f"), "written");
    for (int i = null + 1; i < 130; i++) {
        wrong += fstat(i, &status) != 0 || status.st_rdev != expected.st_rdev;
    }
    SHOW("wrong %d", wrong);
    IN_CHILD("child", show_path("reads", in_r("small")));
    closefrom(3);
    show_path("again", in_r("small"));
}

CASE(many_are_open)
{
    int fds[300], wrong = 0;
    for (int i = 0; i < 300; i++) {
        fds[i] = i % 2 ? reader("small") : open("/dev/null", O_RDONLY);
    }
    for (int i = 0; i < 300; i++) {
        char text[6] = {0};
        ssize_t got = read(fds[i], text, 5);
        wrong += i % 2 ? got != 5 || strcmp(text, "hello") != 0 : got != 0;
    }
    for (int i = 0; i < 300; i++) {
        wrong += close(fds[i]) != 0;
    }
    SHOW("wrong %d", wrong);
    TELL(close(fds[7]));
    show_path("again", in_r("x"));
}
