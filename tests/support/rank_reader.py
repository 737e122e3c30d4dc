"""One rank's command: reads what it sees under the mount in many ways and says what was wrong.

    rank_reader.py SPEC

SPEC is JSON: "tasks" (names of functions below, with their arguments), "results" (a directory, for
<rank>.json), and "source", the plain directory that the dataset was packed from. Each task's
outcome is "ok" or what went wrong; figures of the node daemon go along.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT_S = 40.0


class Reader:
    """What the tasks share. figures: the daemon's status by label."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.rank = int(os.environ["FANSTORE_RANK"])
        self.world_size = int(os.environ["FANSTORE_WORLD_SIZE"])
        self.mount = os.fsencode(os.environ["FANSTORE_MOUNT_PREFIX"])
        self.source = os.fsencode(spec.get("source", ""))
        self.results = Path(spec["results"])
        self.random = random.Random(self.rank)
        self.figures: dict[str, Any] = {}

    def status(self) -> dict[str, Any]:
        """What `fanstore status` gets."""
        with socket.socket(socket.AF_UNIX) as stream:
            job = os.open(os.environ["FANSTORE_JOB_DIR"], os.O_PATH)
            try:
                stream.connect(f"/proc/self/fd/{job}/sock")  # short enough for a socket address
            finally:
                os.close(job)
            stream.sendall(b'{"op": "status"}\n')
            with stream.makefile() as lines:
                answer: dict[str, Any] = json.loads(lines.readline())
        return answer

    def meet(self, name: str) -> None:
        """Waits until all ranks have come here."""
        (self.results / f"{name}.{self.rank}").touch()
        wait_until(lambda: len(list(self.results.glob(f"{name}.*"))) == self.world_size, name)

    def files(self) -> list[bytes]:
        """The relpaths of the regular files, in an order of this rank's own."""
        found = []
        for folder, _, names in os.walk(self.source):
            paths = [os.path.join(folder, name) for name in names]
            found += [p for p in paths if os.path.isfile(p) and not os.path.islink(p)]
        relpaths = sorted(os.path.relpath(path, self.source) for path in found)
        self.random.shuffle(relpaths)
        return relpaths

    def paths(self, relpath: bytes) -> tuple[bytes, bytes]:
        """A file under the mount, and as it was."""
        return os.path.join(self.mount, relpath), os.path.join(self.source, relpath)

    def large(self) -> list[tuple[bytes, bytes]]:
        """The files of a MiB and more."""
        pairs = [self.paths(relpath) for relpath in self.files()]
        return [pair for pair in pairs if os.path.getsize(pair[1]) >= 1 << 20]


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"timed out: {what}"
        time.sleep(0.01)


def content(path: bytes) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def in_children(count: int, work: Callable[[int], None]) -> list[int]:
    """Forks `count` processes that each do work(number); their ids."""
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work(number)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        pids.append(pid)
    return pids


def reap(pids: list[int]) -> list[int]:
    """How they ended, as exit codes; bounded."""
    codes: dict[int, int] = {}

    def all_gone() -> bool:
        for pid in set(pids) - set(codes):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                codes[pid] = os.waitstatus_to_exitcode(status)
        return len(codes) == len(pids)

    wait_until(all_gone, "the end of readers")
    return [codes[pid] for pid in pids]


def same_tree(reader: Reader, snapshot: str) -> None:
    """Every name, its metadata and content are those of the source; `snapshot`: a pickle of it."""
    import trees

    expected = pickle.loads(Path(snapshot).read_bytes())
    found = trees.snapshot(os.fsdecode(reader.mount))
    names = expected.keys() | found.keys()
    pairs = {name: (expected.get(name), found.get(name)) for name in names}
    wrong = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    assert not wrong, f"{len(wrong)} differ: {list(wrong.items())[:3]}"


def crowd(reader: Reader, snapshot: str, processes: int) -> None:
    """Several processes read every file at once, each in an order of its own, and compare."""
    expected = pickle.loads(Path(snapshot).read_bytes())
    files = [(name, facts[-1]) for name, facts in expected.items() if len(facts) == 8]

    def work(number: int) -> None:
        random.Random(reader.rank * 100 + number).shuffle(files)
        for relpath, digest in files:
            got = content(os.path.join(reader.mount, relpath))
            found = hashlib.blake2b(got, digest_size=8).hexdigest()
            assert found == digest, f"rank {reader.rank}: {relpath!r} differs ({len(got)} bytes)"

    pids = in_children(processes, work)
    same_tree(reader, snapshot)
    assert reap(pids) == [0] * processes


def metadata(reader: Reader) -> None:
    """Stats, listings and missing names of all files; nobody reads anything yet."""
    for relpath in reader.files():
        path, original = reader.paths(relpath)
        found, real = os.stat(path), os.stat(original)
        assert (found.st_size, found.st_mtime_ns) == (real.st_size, real.st_mtime_ns)
        assert not os.path.exists(path + b"-not there")
        assert sorted(os.listdir(os.path.dirname(path))) == sorted(
            os.listdir(os.path.dirname(original))
        )


def whole(reader: Reader) -> None:
    """Each file once, in an order of this rank's own."""
    for relpath in reader.files():
        path, original = reader.paths(relpath)
        assert content(path) == content(original), path


def note(reader: Reader, label: str) -> None:
    """The daemon's figures once all ranks have come so far."""
    reader.meet(label)
    reader.figures[label] = reader.status()
    reader.meet(f"{label}-noted")


def preads(reader: Reader, count: int) -> None:
    """Pieces of large files that stay open, at random, compared with the original's."""
    with contextlib.ExitStack() as stack:
        pairs = [
            tuple(stack.enter_context(open(path, "rb", buffering=0)).fileno() for path in pair)
            for pair in reader.large()
        ]
        for _ in range(count):
            ours, original = reader.random.choice(pairs)
            offset = reader.random.randrange(os.fstat(original).st_size + 10)
            size = reader.random.choice([1, 100, 4096, 70000, 1 << 20, 3_000_000])
            assert os.pread(ours, size, offset) == os.pread(original, size, offset), offset


def touches(reader: Reader, processes: int, count: int) -> None:
    """Several processes map the largest file and touch the same pages, at random."""
    path, original = max(reader.large(), key=lambda pair: os.path.getsize(pair[1]))
    size = os.path.getsize(original)

    def work(_: int) -> None:
        chance = random.Random(7)
        with open(path, "rb") as ours, open(original, "rb") as theirs:
            mapping = mmap.mmap(ours.fileno(), 0, prot=mmap.PROT_READ)
            for _ in range(count):
                at = chance.randrange(size // mmap.PAGESIZE) * mmap.PAGESIZE
                found = mapping[at : at + mmap.PAGESIZE]
                assert found == os.pread(theirs.fileno(), len(found), at), at

    assert reap(in_children(processes, work)) == [0] * processes


def same_pieces(reader: Reader, size: int, count: int) -> None:
    """Two processes read the same places of the largest file, in the same order."""
    path, original = max(reader.large(), key=lambda pair: os.path.getsize(pair[1]))

    def work(_: int) -> None:
        places = random.Random(7)
        with open(path, "rb", buffering=0) as ours, open(original, "rb") as real:
            for _ in range(count):
                offset = places.randrange(1, os.path.getsize(original) - size)
                wanted = os.pread(real.fileno(), size, offset)
                assert os.pread(ours.fileno(), size, offset) == wanted, offset

    assert reap(in_children(2, work)) == [0, 0]


def seeks(reader: Reader) -> None:
    """Sequential reads with seeks between them."""
    for path, original in reader.large():
        with open(path, "rb") as ours, open(original, "rb") as real:
            for _ in range(10):
                offset = reader.random.randrange(os.path.getsize(original))
                ours.seek(offset)
                real.seek(offset)
                assert ours.read(50_000) == real.read(50_000)


def mapped(reader: Reader) -> None:
    for path, original in reader.large():
        with (
            open(path, "rb") as stream,
            mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapping,
        ):
            assert mapping[:] == content(original)


def sendfile(reader: Reader) -> None:
    target = os.fsencode(reader.results / f"sent.{reader.rank}")
    for path, original in reader.large():
        with open(path, "rb") as stream, open(target, "wb") as sink:
            size = os.path.getsize(original)
            while sink.tell() < size and os.sendfile(
                sink.fileno(), stream.fileno(), sink.tell(), size
            ):
                sink.seek(0, os.SEEK_END)
        assert content(target) == content(original)


def cat(reader: Reader) -> None:
    for path, original in reader.large():
        done = subprocess.run(["cat", path], capture_output=True, timeout=LIMIT_S, check=True)
        assert done.stdout == content(original)


def piped(reader: Reader) -> None:
    """Two programs go on with one offset, and the first reads no more than it was asked to."""
    for path, original in reader.large():
        with open(path, "rb", buffering=0) as stream:
            script = "dd bs=1000 count=2 2>/dev/null; cat"
            done = subprocess.run(
                ["sh", "-c", script], stdin=stream, capture_output=True, timeout=LIMIT_S, check=True
            )
        assert done.stdout == content(original)


def numpy_arrays(reader: Reader) -> None:
    import numpy

    for path, original in reader.large():
        wanted = numpy.frombuffer(content(original), "u1")
        assert (numpy.fromfile(os.fsdecode(path), "u1") == wanted).all()
        assert (numpy.memmap(os.fsdecode(path), "u1", "r") == wanted).all()


def forked(reader: Reader) -> None:
    """Parent and child share the offset of what was open at the fork."""
    for path, original in reader.large():
        wanted = content(original)
        fd = os.open(path, os.O_RDONLY)
        assert os.read(fd, 1000) == wanted[:1000]

        def child(_: int, fd: int = fd, wanted: bytes = wanted) -> None:
            assert os.read(fd, 500_000) == wanted[1000:501_000]

        assert reap(in_children(1, child)) == [0]
        assert os.lseek(fd, 0, os.SEEK_CUR) == 501_000
        assert os.read(fd, 400_000) == wanted[501_000:901_000]
        os.close(fd)


def pressure(reader: Reader, processes: int, rounds: int) -> None:
    """Many processes, each with all files open, read pieces of them at random."""

    def work(number: int) -> None:
        reader.random = random.Random(reader.rank * 1000 + number)
        preads(reader, rounds)
        whole(reader)

    assert reap(in_children(processes, work)) == [0] * processes


def killed(reader: Reader, victims: int) -> None:
    """Readers die by SIGKILL in the middle of reads; the others go on, and so does the next."""

    def forever(number: int) -> None:
        reader.random = random.Random(number)
        while True:
            preads(reader, 1000)

    doomed = in_children(victims, forever)
    others = in_children(2, lambda number: whole(reader))
    for pid in doomed:
        time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
    assert reap(doomed) == [-signal.SIGKILL] * victims
    assert reap(others) == [0, 0]
    whole(reader)


def sessions_end(reader: Reader) -> None:
    """When this is the only client left, nobody else's session is."""
    wait_until(lambda: reader.status()["node"]["sessions"] <= 1, "the end of sessions")


def emptied(reader: Reader) -> None:
    """Nothing of what was closed stays in the cache."""
    wait_until(lambda: reader.status()["node"]["resident_bytes"] == 0, "an empty cache")


def cache_file(reader: Reader, limit_bytes: int) -> None:
    """The daemon's memory file and what it holds stay within the bound."""
    status = reader.status()
    found = []
    for link in Path(f"/proc/{status['daemon_pid']}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it is closed by now
            if os.readlink(link).startswith("/memfd:"):
                found.append(link.stat())
    assert found, "no memory file"
    assert sum(each.st_size for each in found) <= limit_bytes
    assert sum(each.st_blocks * 512 for each in found) <= limit_bytes
    assert 0 < status["node"]["peak_resident_bytes"] <= status["node"]["cache_bytes"] <= limit_bytes


def further(reader: Reader, number: int, source: str) -> None:
    """Another dataset of the job."""
    reader.mount = os.fsencode(os.environ[f"FANSTORE_MOUNT_PREFIX_{number}"])
    reader.source = os.fsencode(source)
    whole(reader)


def until_filled(reader: Reader) -> None:
    """Until this rank's share is on the local disk."""
    wait_until(lambda: reader.status()["node"]["filling_ahead"] == 0, "the share")


def gone(reader: Reader, pid_file: str) -> None:
    """Another rank's command has ended, and its wrapper knows."""
    path = Path(pid_file)
    wait_until(path.exists, "the other command")
    wait_until(lambda: not Path(f"/proc/{int(path.read_text())}").exists(), "its end")


def figures(reader: Reader, label: str) -> None:
    """Notes the daemon's figures; the other ranks need not be there."""
    reader.figures[label] = reader.status()


def wait_file(reader: Reader, name: str) -> None:
    """Says that it is here, then waits for a file that the test makes."""
    (reader.results / f"here.{reader.rank}").touch()
    wait_until((reader.results / name).exists, name)


TASKS = {
    work.__name__: work
    for work in (
        same_tree, crowd, metadata, whole, note, preads, seeks, mapped, sendfile, cat, piped,
        numpy_arrays, forked, pressure, killed, sessions_end, emptied, cache_file, further,
        until_filled, gone, figures, wait_file, same_pieces, touches,
    )
}  # fmt: skip


def main() -> int:
    spec = json.loads(Path(sys.argv[1]).read_text())
    reader = Reader(spec)
    outcomes = {}
    for label, arguments in spec["tasks"].items():
        try:
            TASKS[label.partition("#")[0]](reader, *arguments)
            outcomes[label] = "ok"
        except Exception:
            outcomes[label] = traceback.format_exc()
    daemon = reader.status()["daemon_pid"]
    maps = Path(f"/proc/{daemon}/maps").read_text(errors="surrogateescape").splitlines()
    shm = {line.split(maxsplit=5)[5] for line in maps if "/dev/shm/" in line}
    said = {"outcomes": outcomes, "figures": reader.figures, "shm": sorted(shm)}
    (reader.results / f"{reader.rank}.json").write_text(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
