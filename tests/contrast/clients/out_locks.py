"""Locks between processes: of files, and by files that one process makes."""

import contextlib
import fcntl
import os

from out_client import Other, fork, names, p, put, reaped, result, show, tell


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
