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
    expect,
    fork,
    forked,
    get,
    names,
    p,
    put,
    python,
    reaped,
    show,
)

WRITE = os.O_WRONLY | os.O_CREAT


def served_unfinished_is_unseen():
    other = Other()
    fd = os.open(p("f"), WRITE, 0o644)
    os.write(fd, b"half ")
    other.expect("ENOENT", "stat", f"os.stat({p('f')!r})")
    other.expect("ENOENT", "read", f"get({p('f')!r})")
    other.expect(["given", "sub"], "list", f"names({D!r})")
    other.expect(False, "access", f"os.access({p('f')!r}, os.F_OK)")
    os.write(fd, b"whole")
    expect(["f", "given", "sub"], "own list", names)
    expect(b"half whole", "own read", get, p("f"))
    os.close(fd)
    other.expect(b"half whole", "finished", f"get({p('f')!r})")
    other.expect(["f", "given", "sub"], "finished list", f"names({D!r})")
    other.end()


def served_old_version_until_the_new_is_finished():
    other = Other()
    put(p("f"), b"old")
    fd = os.open(p("f"), os.O_WRONLY | os.O_TRUNC)
    other.expect(b"old", "cut", f"get({p('f')!r})")
    os.write(fd, b"new one")
    other.expect(b"old", "written", f"get({p('f')!r})")
    expect(b"new one", "own", get, p("f"))
    os.close(fd)
    other.expect(b"new one", "closed", f"get({p('f')!r})")
    fd = os.open(p("f"), os.O_WRONLY | os.O_APPEND)
    os.write(fd, b", appended")
    other.expect(b"new one", "appended", f"get({p('f')!r})")
    os.close(fd)
    other.expect(b"new one, appended", "closed again", f"get({p('f')!r})")
    other.end()


def case_open_reader_keeps_its_version():
    put(p("f"), b"old")
    reader = os.open(p("f"), os.O_RDONLY)
    os.replace(put(p("g"), b"new"), p("f"))
    show("reader", os.pread(reader, 100, 0))
    show("anew", get(p("f")))


def served_second_writer_is_busy():
    other = Other()
    fd = os.open(p("f"), WRITE, 0o644)
    os.write(fd, b"x")
    other.expect("ETXTBSY", "write", f"opened({p('f')!r}, os.O_WRONLY | os.O_CREAT)")
    other.expect("EEXIST", "exclusive", f"opened({p('f')!r}, os.O_WRONLY | os.O_CREAT | os.O_EXCL)")
    os.close(fd)
    other.expect(b"x", "content", f"get({p('f')!r})")
    other.end()


def case_second_writer_after_the_first():
    other = Other()
    put(p("f"), b"first ")
    other.tell("second", f"put({p('f')!r}, b'second', os.O_WRONLY | os.O_APPEND)[-1:]")
    show("now", get(p("f")))
    other.end()


def served_empty_draft_is_joined():
    """A lock file: both have it open, neither writes."""
    other = Other()
    fd = os.open(p("lock"), os.O_RDWR | os.O_CREAT, 0o600)
    other.expect(True, "joined", f"os.open({p('lock')!r}, os.O_RDWR | os.O_CREAT) > 0")
    os.close(fd)
    other.end()
    expect(True, "there at last", appears, p("lock"))


def served_duplicates_are_one():
    other = Other()
    fd = os.open(p("f"), WRITE, 0o644)
    copies = [os.dup(fd), os.dup2(fd, 200)]
    for copy in (fd, *copies):
        os.write(copy, b"x")
        other.expect("ENOENT", "before", f"os.stat({p('f')!r})")
        os.close(copy)
    other.expect(b"xxx", "after the last", f"get({p('f')!r})")
    other.end()


def served_replaced_by_dup2():
    other = Other()
    fd = os.open(p("f"), WRITE, 0o644)
    os.write(fd, b"x")
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, fd)
    other.expect(b"x", "dup2 closes", f"get({p('f')!r})")
    fd = os.open(p("g"), WRITE, 0o644)
    os.closerange(fd, fd + 5)
    other.expect(b"", "close_range", f"get({p('g')!r})")
    other.end()


def served_reader_does_not_delay():
    other = Other()
    fd = os.open(p("f"), os.O_RDWR | os.O_CREAT, 0o644)
    reader = os.open(p("f"), os.O_RDONLY)
    os.write(fd, b"x")
    os.close(fd)
    other.expect(b"x", "published", f"get({p('f')!r})")
    expect(b"x", "reader", os.read, reader, 10)
    other.end()


def served_mapping_outlives_the_descriptor():
    """As np.memmap does it."""
    other = Other()
    fd = os.open(p("f"), os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(fd, 4096)
    mapping = mmap.mmap(fd, 4096)
    os.close(fd)
    mapping[:6] = b"mapped"
    other.expect("ENOENT", "mapped yet", f"os.stat({p('f')!r})")
    mapping.close()
    other.expect(True, "published", f"Other and __import__('time').sleep(0.3) is None and "
                                    f"get({p('f')!r}).startswith(b'mapped')")  # fmt: skip
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
