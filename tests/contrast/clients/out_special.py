"""Fifos, sockets, and locks between processes."""

import contextlib
import fcntl
import os
import socket
import stat

from out_client import D, Other, facts, fork, get, names, p, put, reaped, result, show, tell


def case_fifo():
    tell("mkfifo", os.mkfifo, p("fifo"), 0o600)
    show("it", facts(p("fifo"))[:3], stat.S_ISFIFO(os.stat(p("fifo")).st_mode), names())
    tell("again", os.mkfifo, p("fifo"))
    tell("no reader", os.open, p("fifo"), os.O_WRONLY | os.O_NONBLOCK)
    child = fork(lambda: put(p("fifo"), b"through the fifo", os.O_WRONLY))
    show("read", get(p("fifo")))
    show("child", reaped(child))
    tell("rename", os.rename, p("fifo"), p("moved"))
    tell("unlink", os.unlink, p("moved"))
    show("now", names())


def case_fifo_between_strangers():
    other = Other()
    os.mkfifo(p("fifo"))
    child = fork(lambda: show("read", get(p("fifo"))))
    answer = other.ask(f"put({p('fifo')!r}, b'by another', os.O_WRONLY)[-4:]")
    show("child", reaped(child), answer)
    other.end()


def accept_one(listener):
    peer, _ = listener.accept()
    peer.sendall(b"answer to " + peer.recv(100))
    peer.close()


def talk(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(b"question")
        return client.recv(100)


def case_socket():
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(D)
        tell("bind", listener.bind, "sock")
        listener.listen()
        show("it", oct(stat.S_IFMT(os.stat("sock").st_mode)), names())
        child = fork(lambda: accept_one(listener))
        show("answer", result(talk, "sock"), reaped(child))
        with socket.socket(socket.AF_UNIX) as second:
            tell("taken", second.bind, "sock")
            tell("over a file", second.bind, "given")
            tell("missing directory", second.bind, "none/sock")
        tell("open", os.open, "sock", os.O_RDWR)
    tell("nobody listens", talk, "sock")
    tell("unlink", os.unlink, "sock")
    tell("gone", talk, "sock")
    tell("to a file", talk, "given")
    show("now", names())


def case_socket_of_another():
    os.chdir(D)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
        listener.listen()

        def stranger():
            os.chdir(p("sub"))
            show("answer", talk("../sock"))

        child = fork(stranger)
        accept_one(listener)
        show("child", reaped(child))
    os.unlink("sock")


def case_datagrams():
    os.chdir(D)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as first,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as second,
    ):
        first.bind("first")
        second.bind("second")
        show("sendto", second.sendto(b"datagram", "first"))
        data, address = first.recvfrom(100)
        show("got", data)
        show("sendmsg", first.sendmsg([b"back"], [], 0, "second"), second.recv(100))
        tell("missing", second.sendto, b"x", "none")
        show("address", isinstance(address, str))


def try_lock(path, kind, exclusive=True):
    """How another open of this process, or another process, finds the lock."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with contextlib.closing(os.fdopen(fd, "r+b")) as file:
        how = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB
        (fcntl.flock if kind == "flock" else fcntl.lockf)(file, how)
    return "locked"


def locks_between_processes(kind):
    lock = fcntl.flock if kind == "flock" else fcntl.lockf
    asked, asks = os.pipe()
    told, tells = os.pipe()

    def child():
        for _ in range(3):
            os.read(asked, 1)
            show("other", result(try_lock, p("lock"), kind))
            os.write(tells, b"x")

    pid = fork(child)

    def ask():
        os.write(asks, b"x")
        os.read(told, 1)

    fd = os.open(p("lock"), os.O_RDWR | os.O_CREAT, 0o600)
    lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    ask()
    lock(fd, fcntl.LOCK_UN)
    ask()
    lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
    ask()
    show("child", reaped(pid), names())


def case_flock_of_a_lock_file():
    locks_between_processes("flock")


def case_lockf_of_a_lock_file():
    locks_between_processes("lockf")


def case_flock_of_a_published_file():
    put(p("f"), b"")
    first = os.open(p("f"), os.O_RDONLY)
    second = os.open(p("f"), os.O_RDONLY)
    fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
    tell("second", fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(first, fcntl.LOCK_UN)
    tell("second", fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)


def case_lock_file_by_exclusive_creation():
    other = Other()
    flags = "os.O_WRONLY | os.O_CREAT | os.O_EXCL"
    os.close(os.open(p("lock"), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    other.tell("taken", f"opened({p('lock')!r}, {flags})")
    os.unlink(p("lock"))
    other.tell("free", f"opened({p('lock')!r}, {flags})")
    tell("taken", os.open, p("lock"), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    other.end()


def case_exclusive_creation_excludes_a_draft():
    other = Other()
    fd = os.open(p("lock"), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, b"%d" % 1)
    other.tell("taken", f"opened({p('lock')!r}, os.O_WRONLY | os.O_CREAT | os.O_EXCL)")
    os.close(fd)
    other.tell("taken", f"opened({p('lock')!r}, os.O_WRONLY | os.O_CREAT | os.O_EXCL)")
    other.end()


def case_one_of_many_wins():
    """Each child makes what it can of ten names."""
    children = []
    for i in range(4):

        def race(i=i):
            for name in range(10):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(p(f"prize{name}"), flags))
                    put(p(f"won{name}_{i}"), b"")

        children.append(fork(race))
    show("ends", [reaped(child) for child in children])
    won = [name for name in names() if name.startswith("won")]
    show("each once", len(won), len({name.partition("_")[0] for name in won}))
    for name in won:
        os.unlink(p(name))


def case_one_of_many_makes_the_directory():
    children = []
    for i in range(4):

        def race(i=i):
            for name in range(10):
                os.makedirs(p(f"d{name}", "e"), exist_ok=True)
                put(p(f"d{name}", "e", f"f{i}"), b"")

        children.append(fork(race))
    show("ends", [reaped(child) for child in children])
    show("all", [names(p(f"d{name}", "e")) for name in range(10)])
