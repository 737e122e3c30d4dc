"""Descriptors of inputs that come from another process: they show the file, as plain ones do."""

# ruff: noqa: SIM115 (a client opens files as carelessly as programs do)

import fcntl
import mmap
import os
import socket
import stat
import subprocess
import sys

from contrast_client import BIG, HELLO, LINES, O, T, W, facts, fails, run, same, show


def handed(*fds):
    """What another process, which passes them on, makes of descriptors."""
    left, right = socket.socketpair()
    back, forth = socket.socketpair()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        for fd in fds:
            os.close(fd)
        got = socket.recv_fds(right, 10, len(fds))[1]
        socket.send_fds(forth, [b"again"], got)
        os._exit(0)
    socket.send_fds(left, [b"here"], list(fds))
    received = list(socket.recv_fds(back, 10, len(fds))[1])
    show("exit", os.waitpid(pid, 0)[1], len(received))
    return received


def opened(path, flags=0):
    return handed(os.open(path, os.O_RDONLY | flags))[0]


def identity(status):
    return status.st_dev, status.st_ino


def look(fd, path, **how):
    """Everything that a descriptor says of its file."""
    status = os.fstat(fd)
    show("facts", facts(status), hex(fcntl.fcntl(fd, fcntl.F_GETFL)))
    show("itself", identity(status) == identity(os.stat(path, **how)))
    show("by link", facts(os.stat(f"/proc/self/fd/{fd}", **how))[0])
    show("link", os.readlink(f"/proc/self/fd/{fd}"), fcntl.fcntl(fd, fcntl.F_GETFD))


def case_fstat():
    for path in (HELLO, LINES, BIG):
        look(opened(path), path)


def case_status_flags():
    for name in ("O_NOFOLLOW", "O_SYNC", "O_NONBLOCK", "O_APPEND", "O_DSYNC"):
        fd = opened(HELLO, getattr(os, name))
        show(name, hex(fcntl.fcntl(fd, fcntl.F_GETFL)))


def case_status_flags_are_shared():
    left, right = socket.socketpair()
    fd = opened(HELLO)
    socket.send_fds(left, [b"x"], [fd])
    other = socket.recv_fds(right, 10, 1)[1][0]
    fcntl.fcntl(other, fcntl.F_SETFL, os.O_NONBLOCK)
    show("flags", hex(fcntl.fcntl(fd, fcntl.F_GETFL)), hex(fcntl.fcntl(other, fcntl.F_GETFL)))


def case_content():
    fd = opened(LINES)
    show("read", os.read(fd, 7), os.pread(fd, 5, 3), os.lseek(fd, -4, os.SEEK_END), os.read(fd, 9))
    fails("EBADF", os.write, fd, b"x")
    fails("EINVAL", os.ftruncate, fd, 0)
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as mapped:
        show("mapped", len(mapped), mapped[:9])
    with open(f"{W}/copy", "wb") as out:
        show("sent", os.sendfile(out.fileno(), fd, 2, 11))
    show("copied", open(f"{W}/copy", "rb").read())


def case_offset_is_shared():
    fd = os.open(LINES, os.O_RDONLY)
    os.read(fd, 5)
    first, second, other = handed(fd, os.dup(fd), os.open(LINES, os.O_RDONLY))
    show("next", os.read(first, 5), os.read(second, 5), os.read(other, 5))


def case_reopened():
    fd = opened(LINES)
    os.read(fd, 4)
    show("again", open(f"/proc/self/fd/{fd}").read(8), open(f"/dev/fd/{fd}").read(3))
    fails("ENOTDIR", os.open, f"/proc/self/fd/{fd}/x", os.O_RDONLY)
    fails("ENOTDIR", os.open, "x", os.O_RDONLY, dir_fd=fd)


def case_path_alone():
    fd = opened(HELLO, os.O_PATH)
    look(fd, HELLO)
    fails("EBADF", os.read, fd, 1)
    show("again", open(f"/proc/self/fd/{fd}").read())


def case_path_of_a_link():
    os.symlink("nowhere at all", f"{W}/link")
    for path in (f"{T}/links/deep", f"{W}/link"):
        if os.path.islink(path):
            fd = opened(path, os.O_PATH | os.O_NOFOLLOW)
            show("link", stat.S_ISLNK(os.fstat(fd).st_mode), os.readlink("", dir_fd=fd))


def case_directory():
    for flags in (0, os.O_DIRECTORY, os.O_DIRECTORY | os.O_NOFOLLOW):
        fd = opened(f"{T}/text", flags)
        show("listed", sorted(os.listdir(fd)), hex(fcntl.fcntl(fd, fcntl.F_GETFL)))
        show("inside", os.read(os.open("hello.txt", os.O_RDONLY, dir_fd=fd), 5))
    fd = opened(f"{T}/text", os.O_PATH)
    fails("EBADF", os.listdir, fd)
    look(fd, f"{T}/text")


def case_kept_through_fork_and_exec():
    fd = opened(LINES)
    os.read(fd, 3)
    os.set_inheritable(fd, True)
    code = f"import os; s = os.fstat({fd}); print(s.st_nlink, s.st_size, os.read({fd}, 5))"
    subprocess.run([sys.executable, "-c", code], check=True, close_fds=False)
    show("here", os.read(fd, 5))
    sys.stdout.flush()
    if os.fork() == 0:
        show("child", os.fstat(fd).st_nlink, os.read(fd, 5))
        os._exit(0)
    os.wait()
    show("after", os.read(os.dup(fd), 5))


def case_outside_stays_outside():
    path = f"{W}/file"
    with open(path, "w") as file:
        file.write("plain")
    os.utime(path, (1, 2))
    fd = opened(path)
    look(fd, path)
    os.unlink(path)
    same("unlinked", os.fstat(opened(f"/proc/self/fd/{fd}")).st_nlink, 0)
    show("outside", os.path.isdir(O), os.fstat(opened("/dev/null")).st_rdev)


run(globals())
