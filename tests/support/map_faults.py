"""Does something to the map server of its job, on rank 1, and looks what becomes of mappings.

map_faults.py FAULT SOURCE      FAULT: a function below; SOURCE: the plain file, beside which
                                notes for the test are left"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rank_reader import in_children, reap, wait_until

PAGE = mmap.PAGESIZE


def map_file(path: str) -> mmap.mmap:
    with open(path, "rb") as stream:
        return mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)


def map_servers(mark: str) -> list[int]:
    """The processes of map servers whose environment contains a text, in the order of starts."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            marked = os.fsencode(mark) in (entry / "environ").read_bytes()
            if marked and (entry / "comm").read_text() == "fanstore-maps\n":
                found.append(int(entry.name))
    return sorted(found)


def servers() -> list[int]:
    """The two processes of this job's map server: that which answers the kernel comes first."""
    return map_servers(f"FANSTORE_JOB_DIR={os.environ['FANSTORE_JOB_DIR']}\0")


def starting(work: Callable[[], object]) -> int:
    """A child that does it; its id."""

    def run(_: int) -> None:
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        work()

    return in_children(1, run)[0]


def killed(path: str, source: str) -> None:
    """Pages that were touched stay, and the others raise SIGBUS. A new mapping needs no server."""
    mapping, plain = map_file(path), Path(source).read_bytes()
    assert mapping[:PAGE] == plain[:PAGE]
    for pid in servers():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not servers(), "the end of the server")
    assert reap([starting(lambda: mapping[len(plain) // 2])]) == [-signal.SIGBUS]
    assert mapping[:PAGE] == plain[:PAGE]
    assert map_file(path)[:] == plain


def terminated(path: str, source: str) -> None:
    """Slurm signals all processes at the time limit: the server goes on."""
    mapping, found = map_file(path), servers()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        for pid in found:
            os.kill(pid, number)
    assert mapping[:] == Path(source).read_bytes()
    assert servers() == found


def suspended(path: str, source: str) -> None:
    """All processes are stopped for a while, with a request under way."""
    mapping, found = map_file(path), servers()
    os.kill(found[0], signal.SIGSTOP)
    waiting = starting(lambda: map_file(path)[8 << 20])
    time.sleep(0.3)
    os.kill(found[1], signal.SIGSTOP)
    for pid in reversed(found):
        os.kill(pid, signal.SIGCONT)
    assert reap([waiting]) == [0]
    assert mapping[:] == Path(source).read_bytes()


def changed(path: str, source: str) -> None:
    """The original changes between the program's open and its mmap: never bytes of both."""
    with open(path, "rb") as stream:
        before = stream.read(100)
        Path(source).write_bytes(b"new" * 7_000_000)
        try:
            mapping = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
            assert mapping[:100] == before
        except OSError as error:
            assert error.errno == errno.EIO


def stopped(path: str, source: str, advice: int = mmap.MADV_NORMAL) -> None:
    """A program that waits for a stopped server can be killed; the server is killed, too, after a
    while, and then the others get SIGBUS."""
    mapping = map_file(path)
    mapping.madvise(advice)
    os.kill(servers()[0], signal.SIGSTOP)
    waiting = [starting(lambda: mapping[8 << 20]), starting(lambda: mapping[16 << 20])]
    time.sleep(0.5)
    os.kill(waiting[0], signal.SIGKILL)
    if advice == mmap.MADV_NORMAL:
        assert reap(waiting[:1]) == [-signal.SIGKILL]
        os.kill(servers()[0], signal.SIGCONT)
        assert reap(waiting[1:]) == [0]
        assert mapping[:] == Path(source).read_bytes()
    else:
        assert reap(waiting) == [-signal.SIGKILL, -signal.SIGBUS]


def stopped_at_random(path: str, source: str) -> None:
    """Does what `stopped` does with pages that the kernel reads one by one: no signal ends the wait
    for such a page."""
    stopped(path, source, mmap.MADV_RANDOM)


def daemon_dies(path: str, source: str) -> None:
    """The daemon of one of the ranks is killed: the mapping has the right bytes nevertheless."""
    mapping = map_file(path)
    Path(f"{source}-mapped").touch()
    wait_until(Path(f"{source}-dead").exists, "the daemon's death")
    assert mapping[:] == Path(source).read_bytes()
    Path(f"{source}-right").touch()


def main() -> None:
    fault, source = sys.argv[1:]
    if os.environ["FANSTORE_RANK"] == "1":
        path = f"{os.environ['FANSTORE_MOUNT_PREFIX']}/{Path(source).name}"
        globals()[fault](path, source)


if __name__ == "__main__":
    main()
