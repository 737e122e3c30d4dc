"""From the first byte to the last close: who sees what when."""

import contextlib
import mmap
import os
import signal
import time

from out_client import (
    ROOMY_S,
    D,
    Other,
    W,
    appears,
    fork,
    forked,
    get,
    names,
    p,
    put,
    python,
    reaped,
    show,
    tell,
)

WRITE = os.O_WRONLY | os.O_CREAT


def case_seen_while_it_is_written():
    other = Other()
    fd = os.open(p("f"), WRITE, 0o644)
    os.write(fd, b"half ")
    other.tell("stat", f"os.stat({p('f')!r}).st_size")
    other.tell("read", f"get({p('f')!r})")
    other.tell("list", f"names({D!r})")
    other.tell("access", f"os.access({p('f')!r}, os.F_OK)")
    os.write(fd, b"whole")
    tell("own list", names)
    tell("own read", get, p("f"))
    os.close(fd)
    other.tell("finished", f"get({p('f')!r})")
    other.tell("finished list", f"names({D!r})")
    other.end()


def case_cut_and_appended_beside_a_reader():
    other = Other()
    put(p("f"), b"old")
    fd = os.open(p("f"), os.O_WRONLY | os.O_TRUNC)
    other.tell("cut", f"get({p('f')!r})")
    os.write(fd, b"new one")
    other.tell("written", f"get({p('f')!r})")
    tell("own", get, p("f"))
    os.close(fd)
    other.tell("closed", f"get({p('f')!r})")
    fd = os.open(p("f"), os.O_WRONLY | os.O_APPEND)
    os.write(fd, b", appended")
    other.tell("appended", f"get({p('f')!r})")
    os.close(fd)
    other.tell("closed again", f"get({p('f')!r})")
    other.end()


def case_open_reader_keeps_its_version():
    put(p("f"), b"old")
    reader = os.open(p("f"), os.O_RDONLY)
    os.replace(put(p("g"), b"new"), p("f"))
    show("reader", os.pread(reader, 100, 0))
    show("anew", get(p("f")))


def case_two_writers():
    other = Other()
    fd = os.open(p("f"), WRITE, 0o644)
    os.write(fd, b"x")
    other.tell("write", f"opened({p('f')!r}, os.O_WRONLY | os.O_CREAT)")
    other.tell("exclusive", f"opened({p('f')!r}, os.O_WRONLY | os.O_CREAT | os.O_EXCL)")
    os.close(fd)
    other.tell("content", f"get({p('f')!r})")
    other.end()


def case_second_writer_after_the_first():
    other = Other()
    put(p("f"), b"first ")
    other.tell("second", f"put({p('f')!r}, b'second', os.O_WRONLY | os.O_APPEND)[-1:]")
    show("now", get(p("f")))
    other.end()


def case_a_lock_file_of_two():
    """A lock file: both have it open, neither writes."""
    other = Other()
    fd = os.open(p("lock"), os.O_RDWR | os.O_CREAT, 0o600)
    other.tell("joined", f"os.open({p('lock')!r}, os.O_RDWR | os.O_CREAT) > 0")
    os.close(fd)
    other.end()
    tell("there at last", appears, p("lock"))


def case_written_by_duplicates():
    other = Other()
    fd = os.open(p("f"), WRITE, 0o644)
    copies = [os.dup(fd), os.dup2(fd, 200)]
    for copy in (fd, *copies):
        os.write(copy, b"x")
        other.tell("before", f"os.stat({p('f')!r}).st_size")
        os.close(copy)
    other.tell("after the last", f"get({p('f')!r})")
    other.end()


def case_replaced_by_dup2():
    other = Other()
    fd = os.open(p("f"), WRITE, 0o644)
    os.write(fd, b"x")
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, fd)
    other.tell("dup2 closes", f"get({p('f')!r})")
    fd = os.open(p("g"), WRITE, 0o644)
    os.closerange(fd, fd + 5)
    other.tell("close_range", f"get({p('g')!r})")
    other.end()


def case_a_reader_beside_the_writer():
    other = Other()
    fd = os.open(p("f"), os.O_RDWR | os.O_CREAT, 0o644)
    reader = os.open(p("f"), os.O_RDONLY)
    os.write(fd, b"x")
    os.close(fd)
    other.tell("published", f"get({p('f')!r})")
    tell("reader", os.read, reader, 10)
    other.end()


def case_mapping_outlives_the_descriptor():
    """As np.memmap does it."""
    other = Other()
    fd = os.open(p("f"), os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(fd, 4096)
    mapping = mmap.mmap(fd, 4096)
    os.close(fd)
    mapping[:6] = b"mapped"
    other.tell("mapped yet", f"os.stat({p('f')!r}).st_size")
    mapping.close()
    other.tell("closed", f"get({p('f')!r}).startswith(b'mapped')")
    other.end()


def case_mapped_until_exit():
    code = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 8192)
mapping = mmap.mmap(fd, 8192)
os.close(fd)
mapping[4096:4101] = b'after'
sys.keep = mapping
"""
    show("exit", python(code, p("f")))
    show("now", appears(p("f")) and get(p("f"))[4090:4105])


def case_shared_between_processes_by_mapping():
    fd = os.open(p("f"), os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(fd, 4096)
    mapping = mmap.mmap(fd, 4096)

    def work():
        mapping[:5] = b"child"

    show("child", forked(work), mapping[:5])
    mapping.close()
    os.close(fd)
    show("now", get(p("f"))[:8])


def case_sent_over_a_socket():
    import socket

    left, right = socket.socketpair()
    fd = os.open(p("f"), WRITE, 0o644)

    def work():
        _, fds, _, _ = socket.recv_fds(right, 10, 1)
        os.write(fds[0], b"by the receiver")

    child = fork(work)
    socket.send_fds(left, [b"x"], [fd])
    os.close(fd)
    show("child", reaped(child))
    show("now", appears(p("f")) and get(p("f")))


def case_received_to_read():
    import socket

    put(p("f"), b"of the sender")
    left, right = socket.socketpair()
    fd = os.open(p("f"), os.O_RDONLY)

    def work():
        _, fds, _, _ = socket.recv_fds(right, 10, 1)
        named, received = os.stat(p("f")), os.fstat(fds[0])
        show("same", (named.st_dev, named.st_ino) == (received.st_dev, received.st_ino))
        show("received", received.st_nlink, received.st_size, os.read(fds[0], 20))

    child = fork(work)
    socket.send_fds(left, [b"x"], [fd])
    show("child", reaped(child))


def case_threads():
    import threading

    def work(i):
        for j in range(10):
            put(p(f"f{i}_{j}"), b"%d" % j * 1000)
            assert len(get(p(f"f{i}_{j}"))) == 1000
            os.rename(p(f"f{i}_{j}"), p(f"g{i}_{j}"))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show("now", names())


def case_signal_handler_writes():
    def handler(*_):
        put(p("f"), b"in a handler")

    signal.signal(signal.SIGUSR1, handler)
    os.kill(os.getpid(), signal.SIGUSR1)
    show("now", get(p("f")))


def case_outside_is_untouched():
    put(f"{W}/elsewhere", b"x")
    show("outside", get(f"{W}/elsewhere"))
    os.unlink(f"{W}/elsewhere")


def case_closed_while_another_reads_all_along():
    """A reader that polls sees nothing, or all of it."""

    def work():
        end = time.monotonic() + ROOMY_S
        seen = set()
        while time.monotonic() < end and len(names(D)) < 3:
            time.sleep(0.001)
        while time.monotonic() < end:
            with contextlib.suppress(FileNotFoundError):
                seen.add(len(get(p("f.done"))))
                break
        print("seen", sorted(seen), flush=True)

    child = fork(work)
    with open(p("f"), "wb") as file:
        for _ in range(100):
            file.write(b"x" * 1000)
    os.rename(p("f"), p("f.done"))
    show("child", reaped(child))
