"""Descriptors from Python: offsets, dup, fcntl, poll, sendfile and their kin."""

# ruff: noqa: SIM115 (a client opens files as carelessly as programs do)

import contextlib
import ctypes
import fcntl
import os
import select
import socket
import stat
import struct
import termios
import threading

from contrast_client import BIG, HELLO, LINES, MID, T, W, fails, run, same, show

libc = ctypes.CDLL(None, use_errno=True)


def opened(path=HELLO, flags=os.O_RDONLY):
    return os.open(path, flags)


def case_lseek():
    fd = opened(MID)
    show(
        "set",
        os.lseek(fd, 10, os.SEEK_SET),
        os.lseek(fd, 5, os.SEEK_CUR),
        os.lseek(fd, -3, os.SEEK_END),
    )
    show("read", os.read(fd, 10), os.read(fd, 10))
    show("beyond", os.lseek(fd, 10_000_000_000, os.SEEK_SET), os.read(fd, 10))
    fails("EINVAL", os.lseek, fd, -1, os.SEEK_SET)
    fails("EINVAL", os.lseek, fd, -20_000_000_000, os.SEEK_CUR)
    fails("EINVAL", os.lseek, fd, -200_004, os.SEEK_END)
    fails("EINVAL", os.lseek, fd, 0, 99)
    fails("EBADF", os.lseek, 1234, 0, os.SEEK_SET)
    show("offset kept", os.lseek(fd, 0, os.SEEK_CUR))
    fails("ESPIPE", os.lseek, os.pipe()[0], 0, os.SEEK_SET)


def case_lseek_overflow():
    fd = opened(MID)
    os.lseek(fd, 100, os.SEEK_SET)
    fails("EINVAL", os.lseek, fd, (1 << 63) - 1, os.SEEK_CUR)
    fails("EINVAL", os.lseek, fd, -(1 << 63), os.SEEK_SET)
    show("offset", os.lseek(fd, 0, os.SEEK_CUR))


def case_seek_data_and_hole():
    fd = opened(MID)
    show("data", os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 1000, os.SEEK_DATA))
    show("hole", os.lseek(fd, 0, os.SEEK_HOLE), os.lseek(fd, 1000, os.SEEK_HOLE))
    fails("ENXIO", os.lseek, fd, 200_003, os.SEEK_DATA)
    fails("ENXIO", os.lseek, fd, 200_003, os.SEEK_HOLE)
    fails("ENXIO", os.lseek, fd, -1, os.SEEK_DATA)


def case_read_sizes():
    fd = opened(MID)
    show("zero", os.read(fd, 0))
    show("counts", [len(os.read(fd, n)) for n in (1, 2, 100_000, 1_000_000, 1)])
    fails("EINVAL", os.read, fd, -1)


def case_pread():
    fd = opened(MID)
    show(
        "parts",
        os.pread(fd, 10, 0),
        os.pread(fd, 10, 200_000),
        os.pread(fd, 10, 200_003),
        os.pread(fd, 5, 1 << 40),
    )
    show("offset untouched", os.lseek(fd, 0, os.SEEK_CUR))
    fails("EINVAL", os.pread, fd, 10, -1)
    fails("EBADF", os.pread, 1234, 10, 0)


def case_readv_and_preadv():
    fd = opened(MID)
    parts = [bytearray(3), bytearray(0), bytearray(70_000), bytearray(5)]
    show(
        "readv", os.readv(fd, parts), bytes(parts[0]), bytes(parts[3]), os.lseek(fd, 0, os.SEEK_CUR)
    )
    show("preadv", os.preadv(fd, parts, 199_999), bytes(parts[0]), bytes(parts[2][:1]))
    show("flags", os.preadv(fd, [bytearray(4)], 0, os.RWF_HIPRI))
    show("empty", os.readv(fd, []), os.preadv(fd, [bytearray(1)], 1 << 50))
    fails("EINVAL", os.preadv, fd, parts, -5)
    fails("EINVAL", os.readv, fd, [bytearray(1)] * 1025)
    show("exactly IOV_MAX", os.readv(fd, [bytearray(2)] * 1024))


def case_write_calls_ebadf():
    fd = opened()
    fails("EBADF", os.write, fd, b"x")
    fails("EBADF", os.pwrite, fd, b"x", 0)
    fails("EBADF", os.writev, fd, [b"x"])
    fails("EBADF", os.pwritev, fd, [b"x"], 0)
    fails("EINVAL", os.ftruncate, fd, 0)
    fails("EBADF", os.posix_fallocate, fd, 0, 10)


def case_sync_calls_succeed():
    fd = opened()
    show("sync", os.fsync(fd), os.fdatasync(fd))
    show("sync", libc.syncfs(fd), libc.sync_file_range(fd, 0, 0, 0))


def case_fadvise_and_readahead():
    fd = opened(BIG)
    for advice in (os.POSIX_FADV_SEQUENTIAL, os.POSIX_FADV_WILLNEED, os.POSIX_FADV_DONTNEED):
        os.posix_fadvise(fd, 0, 0, advice)
    fails("EINVAL", os.posix_fadvise, fd, 0, 0, 99)
    libc.readahead.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_size_t]
    show("readahead", libc.readahead(fd, 0, 4096))
    show("content", os.read(fd, 5))


def case_dup_shares_the_offset():
    fd = opened()
    other = os.dup(fd)
    show("alternate", os.read(fd, 3), os.read(other, 3), os.read(fd, 3))
    os.close(fd)
    show("after close", os.read(other, 2), os.fstat(other).st_size)
    os.close(other)
    fails("EBADF", os.read, other, 1)


def case_dup2():
    fd = opened()
    os.dup2(fd, 50)
    show("dup2", os.read(fd, 3), os.read(50, 3))
    show("same number", os.dup2(50, 50), os.read(50, 1))
    os.dup2(opened(MID), 50)
    show("replaced", os.read(50, 5), os.read(fd, 2))
    os.dup2(os.open("/dev/null", os.O_RDONLY), fd)
    show("over ours", os.read(fd, 5), stat.S_ISCHR(os.fstat(fd).st_mode))
    fails("EBADF", os.dup2, 999, 50)
    show("untouched", os.read(50, 3))
    fails("EBADF", os.dup, 999)


def case_dup2_over_stdin():
    os.dup2(opened(), 0)
    show("stdin", os.read(0, 5), os.read(0, 100))


def case_dup3_flags():
    fd = opened()
    same("cloexec", libc.dup3(fd, 60, os.O_CLOEXEC), 60)
    show("flags", fcntl.fcntl(60, fcntl.F_GETFD), os.read(60, 4))
    ctypes.set_errno(0)
    show("same number", libc.dup3(fd, fd, 0), ctypes.get_errno())
    show("bad flags", libc.dup3(fd, 61, 12345), ctypes.get_errno())


def case_fcntl_dupfd():
    fd = opened()
    high = fcntl.fcntl(fd, fcntl.F_DUPFD, 100)
    show("number", high, fcntl.fcntl(high, fcntl.F_GETFD))
    closing = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
    show("number", closing, fcntl.fcntl(closing, fcntl.F_GETFD))
    show("shared", os.read(fd, 2), os.read(high, 2), os.read(closing, 2))


def case_fcntl_flags():
    fd = opened()
    show("GETFL", fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK))
    show("SETFL", fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK))
    show("GETFL", fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK))
    show("blocking", os.get_blocking(fd))
    fcntl.fcntl(fd, fcntl.F_SETFD, 0)
    show("GETFD", fcntl.fcntl(fd, fcntl.F_GETFD), os.get_inheritable(fd))
    fails("EINVAL", fcntl.fcntl, fd, 9999)
    fails("EBADF", fcntl.fcntl, 999, fcntl.F_GETFL)


def case_flags_are_of_the_description():
    fd = opened()
    other = os.dup(fd)
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
    show("seen by the dup", bool(fcntl.fcntl(other, fcntl.F_GETFL) & os.O_NONBLOCK))


def case_locks():
    fd = opened()
    for lock in (fcntl.LOCK_SH, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN):
        fcntl.flock(fd, lock)
    fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    fails("EBADF", fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(fd, fcntl.LOCK_UN)
    show("still reads", os.read(fd, 5))


def case_flock_excludes_another_open():
    first, second = opened(), opened()
    fcntl.flock(first, fcntl.LOCK_EX)
    fails("EAGAIN", fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(first, fcntl.LOCK_UN)
    fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    show("offsets", os.read(first, 3), os.read(second, 3))


def case_terminal_calls_enotty():
    fd = opened()
    show("isatty", os.isatty(fd))
    fails("ENOTTY", os.ttyname, fd)
    fails("ENOTTY", os.get_terminal_size, fd)
    try:
        termios.tcgetattr(fd)
    except termios.error as error:
        show("tcgetattr", error.args[0])


def case_ioctl_fionread():
    fd = opened()
    os.read(fd, 4)
    show("left", struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, struct.pack("i", 0))))
    fails("ENOTTY", fcntl.ioctl, fd, 0x12345678, struct.pack("i", 0))
    fcntl.ioctl(fd, termios.FIOCLEX)
    fcntl.ioctl(fd, termios.FIONCLEX)
    show("flags", fcntl.fcntl(fd, fcntl.F_GETFD))


def case_select_and_poll():
    fd = opened()
    show("select", len(select.select([fd], [], [], 5)[0]))
    poller = select.poll()
    poller.register(fd, select.POLLIN | select.POLLOUT)
    show("poll", [event for _, event in poller.poll(5000)])
    os.lseek(fd, 0, os.SEEK_END)
    show(
        "at the end",
        len(select.select([fd], [fd], [], 5)[0]),
        [event for _, event in poller.poll(5000)],
    )


def case_poll_with_a_pipe():
    fd, (reader, writer) = opened(), os.pipe()
    show("select", [f == fd for f in select.select([fd, reader], [], [], 5)[0]])
    os.write(writer, b"x")
    show("both", len(select.select([fd, reader], [writer], [], 5)[0]))
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    poller.register(fd, select.POLLIN)
    show("poll", sorted((f == fd, event) for f, event in poller.poll(5000)))


def case_epoll_eperm():
    epoll = select.epoll()
    fails("EPERM", epoll.register, opened(), select.EPOLLIN)
    fails("EPERM", epoll.register, os.open(f"{T}/text", os.O_RDONLY), select.EPOLLIN)
    fails("EBADF", epoll.register, 999, select.EPOLLIN)


def case_sendfile_to_a_socket():
    left, right = socket.socketpair()
    fd = opened(LINES)
    sent = os.sendfile(left.fileno(), fd, 100, 1000)
    show("explicit offset", sent, right.recv(2000), os.lseek(fd, 0, os.SEEK_CUR))
    os.lseek(fd, 50, os.SEEK_SET)
    sent = os.sendfile(left.fileno(), fd, None, 60)
    show("own offset", sent, right.recv(2000), os.lseek(fd, 0, os.SEEK_CUR))
    show("at the end", os.sendfile(left.fileno(), fd, 10_000_000, 10))


def case_socket_sendfile():
    left, right = socket.socketpair()
    parts = []
    thread = threading.Thread(target=lambda: parts.extend(iter(lambda: right.recv(65536), b"")))
    thread.start()
    with open(BIG, "rb") as file:
        show("sent", left.sendfile(file), file.tell())
    left.close()
    thread.join(30)
    show("received", sum(map(len, parts)), b"".join(parts) == open(BIG, "rb").read())


def case_sendfile_to_a_file():
    fd, out = opened(MID), os.open(f"{W}/out", os.O_WRONLY | os.O_CREAT)
    show("sent", os.sendfile(out, fd, 0, 300_000))


def case_copy_file_range():
    fd, out = opened(MID), os.open(f"{W}/out", os.O_WRONLY | os.O_CREAT)
    total = 0
    while copied := os.copy_file_range(fd, out, 1 << 20):
        total += copied
    show("copied", total, os.lseek(fd, 0, os.SEEK_CUR))
    show("with offsets", os.copy_file_range(fd, out, 100, offset_src=5, offset_dst=0))


def case_splice():
    fd, (reader, writer) = opened(LINES), os.pipe()
    libc.splice.argtypes = [ctypes.c_int, ctypes.c_void_p] * 2 + [ctypes.c_size_t, ctypes.c_uint]
    show("spliced", libc.splice(fd, None, writer, None, 1000, 0), os.read(reader, 2000))
    offset = ctypes.c_int64(500)
    show(
        "offset",
        libc.splice(fd, ctypes.byref(offset), writer, None, 50, 0),
        os.read(reader, 100),
        offset.value,
    )
    show("own offset", os.lseek(fd, 0, os.SEEK_CUR))


def case_passed_to_another_process():
    left, right = socket.socketpair()
    if os.fork() == 0:
        received = socket.recv_fds(right, 10, 1)[1][0]
        show("received", os.read(received, 10), os.fstat(received).st_size)
        os._exit(0)
    fd = opened(LINES)
    os.read(fd, 5)
    socket.send_fds(left, [b"here"], [fd, os.open("/dev/null", os.O_RDONLY)])
    os.wait()
    show("still ours", os.fstat(fd).st_size)


def case_passed_over_a_socket():
    left, right = socket.socketpair()
    fd = opened(LINES)
    os.read(fd, 5)
    socket.send_fds(left, [b"here"], [fd])
    received = socket.recv_fds(right, 10, 1)[1][0]
    show("received", os.read(received, 10), os.fstat(received).st_size, os.fstat(fd).st_size)


def case_proc_self_fd():
    fd = opened()
    os.read(fd, 6)
    show("link", os.readlink(f"/proc/self/fd/{fd}"), os.readlink(f"/proc/{os.getpid()}/fd/{fd}"))
    show("reopened", open(f"/proc/self/fd/{fd}").read(), open(f"/dev/fd/{fd}").read())
    show("stat", os.stat(f"/proc/self/fd/{fd}").st_size, str(fd) in os.listdir("/proc/self/fd"))


def case_directory_descriptor():
    fd = os.open(f"{T}/text", os.O_RDONLY | os.O_DIRECTORY)
    show("kind", stat.S_ISDIR(os.fstat(fd).st_mode), os.readlink(f"/proc/self/fd/{fd}"))
    other = os.dup(fd)
    os.close(fd)
    show("dup lists", sorted(os.listdir(other)))
    fails("EISDIR", os.read, other, 1)
    fails("EBADF", os.write, other, b"x")


def case_bad_pointers_efault():
    fd = opened(MID)
    bad = ctypes.c_void_p(8)
    calls = {
        "read": lambda: libc.read(fd, bad, 100),
        "pread": lambda: libc.pread(fd, bad, 100, ctypes.c_long(0)),
        "stat": lambda: libc.stat(HELLO.encode(), bad),
        "fstat": lambda: libc.fstat(fd, bad),
        "open": lambda: libc.open(bad, os.O_RDONLY),
        "stat path": lambda: libc.stat(bad, ctypes.create_string_buffer(256)),
        "access": lambda: libc.access(bad, 0),
        "readlink": lambda: libc.readlink(f"{T}/links/to_file".encode(), bad, 10),
        "readlink path": lambda: libc.readlink(bad, ctypes.create_string_buffer(256), 100),
        "readv": lambda: libc.readv(fd, bad, 1),
        "chdir": lambda: libc.chdir(bad),
    }
    for name, call in calls.items():
        ctypes.set_errno(0)
        same(name, (call(), ctypes.get_errno()), (-1, 14))
    show("offset", os.lseek(fd, 0, os.SEEK_CUR))


def case_read_into_a_read_only_page_efault():
    import mmap

    page = mmap.mmap(-1, 8192)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    libc.mprotect(ctypes.c_void_p(address + 4096), 4096, mmap.PROT_READ)
    fd = opened(MID)
    ctypes.set_errno(0)
    same(
        "wholly read-only",
        (libc.read(fd, ctypes.c_void_p(address + 4096), 100), ctypes.get_errno()),
        (-1, 14),
    )
    show("offset", os.lseek(fd, 0, os.SEEK_CUR))


def case_closerange_and_reuse():
    fds = [opened() for _ in range(5)]
    os.closerange(fds[0], fds[-1] + 1)
    for fd in fds:
        fails("EBADF", os.fstat, fd)
    again = opened(MID)
    show("reused", again == fds[0], os.read(again, 4))


def case_close_everything_above_two():
    opened(), opened(MID)
    os.closerange(3, 1 << 20)
    fd = opened()
    show("still works", fd, os.read(fd, 5), sorted(os.listdir(f"{T}/hard")))


def case_close_range_call():
    held = opened()
    show("close_range", libc.close_range(held, ctypes.c_uint(0xFFFFFFFF), 0))
    fails("EBADF", os.read, held, 1)
    show("still works", os.read(opened(), 5))
    fd = opened()
    show(
        "cloexec",
        libc.close_range(3, ctypes.c_uint(0xFFFFFFFF), 4),
        fcntl.fcntl(fd, fcntl.F_GETFD),
        os.read(fd, 3),
    )


def case_closed_by_the_number_of_a_parked_descriptor():
    before = set(os.listdir("/proc/self/fd"))
    for number in sorted(map(int, before)):
        if number > 2:
            with contextlib.suppress(OSError):
                os.close(number)
    show(
        "still works", os.read(opened(), 5), os.stat(HELLO).st_size, sorted(os.listdir(f"{T}/hard"))
    )


def case_set_and_clear_by_fdopen():
    fd = opened()
    with os.fdopen(fd) as file:
        show("fdopen", file.read(5), file.tell())
    fails("EBADF", os.fstat, fd)


def case_memfd_and_pipes_are_untouched():
    fd = os.memfd_create("m")
    os.write(fd, b"memory")
    show("memfd", os.pread(fd, 10, 0))
    os.dup2(fd, opened())
    show(
        "sendfile from memfd", os.sendfile(os.open(f"{W}/out", os.O_WRONLY | os.O_CREAT), fd, 0, 6)
    )


def case_lease():
    show("lease", fcntl.fcntl(opened(), fcntl.F_GETLEASE))


if __name__ == "__main__":
    run(globals())
