"""A process that changes outputs through children which it kills at random, and knows what must be
there after each change."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from serving import wait_for
from stress_content import Board, Torn, read_pieces, section, sections, version_of

NAMES = 6  # of each writer, in the directories that all share
MOVING = 2  # of each writer, in a directory of its own that moves
SLOTS = NAMES + 2 * MOVING
DIRECTORIES = ("", "a", "a/deep", "b", "c", "input")  # the last is the dataset's own
SHARED = len(DIRECTORIES)  # names that all writers fight for
CHILD_LIMIT_S = 30
KILLED_ONE_IN = 3
SECTION_MAX = 300_000
FILE_MAX = 1_500_000

# How an open may end for one who came too late.
FIGHT_LOST = {"cut": [errno.ETXTBSY], "exclusive": [errno.EEXIST], "rename": []}

Mark = Callable[[bytes], None]
Work = Callable[[Mark], None]


def path_of(writer: int, number: int) -> str:
    """The relpath of the name that a slot stands for."""
    if number < NAMES:
        directory = DIRECTORIES[number % len(DIRECTORIES)]
        return os.path.join(directory, f"own-{writer}-{number}")
    side, number = divmod(number - NAMES, MOVING)
    return f"moving-{writer}-{side}/{number}"


def group_runs(group: int) -> bool:
    """Whether a process of a group runs; a zombie does not."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, _, found = Path(entry, "stat").read_text().rpartition(") ")[2].split()[:3]
                if int(found) == group and state not in "ZX":
                    return True
    return False


def _send(fd: int, mark: bytes) -> None:
    os.write(fd, mark)


class Writer:
    """One worker. outcomes: how often each of its operations was done, and how it ended; log: what
    it has done."""

    def __init__(self, mount: str, board: Board, number: int, seed: int, scratch: Path) -> None:
        self._mount = mount
        self._board = board
        self._number = number
        self._random = random.Random(f"{seed} {number}")
        self._scratch = scratch / f"scratch-{number}"
        self._version = 0
        self._side = 0
        self.outcomes: dict[str, int] = {}
        self.wrong: list[str] = []
        self.log: list[str] = []
        for side in (0, 1):
            os.makedirs(self._full(f"moving-{number}-{side}"), exist_ok=True)
        for directory in DIRECTORIES:
            os.makedirs(self._full(directory), exist_ok=True)

    def work_until(self, deadline_s: float) -> None:
        """Changes one thing after the other, until one goes wrong."""
        steps = [
            *[self.write] * 6, *[self.write_beside] * 4, *[self.add] * 3, *[self.patch] * 2,
            *[self.copied] * 2, self.left_open, self.heir, *[self.remove] * 2, *[self.rename] * 2,
            self.move, *[self.fight] * 5,
        ]  # fmt: skip
        while time.monotonic() < deadline_s:
            step = self._random.choice(steps)
            try:
                step()
            except (OSError, AssertionError, Torn) as error:
                self.wrong.append(f"writer {self._number}, {step.__name__}: {error!r}")
                return

    # ---- names and versions ----

    def _full(self, relpath: str) -> str:
        return os.path.join(self._mount, relpath)

    def _path(self, number: int) -> str:
        return self._full(path_of(self._number, number))

    def _slot(self, number: int) -> int:
        return self._number * SLOTS + number

    def _there(self, number: int) -> int:
        return self._board.look(self._slot(number)).version

    def _pick(self, present: bool | None = None) -> int | None:
        """One of the names that can be there now; with `present`, one that is, or is not."""
        moving = [NAMES + self._side * MOVING + n for n in range(MOVING)]
        names = [*range(NAMES), *moving]
        if present is not None:
            names = [n for n in names if bool(self._there(n)) == present]
        return self._random.choice(names) if names else None

    def _next(self) -> bytes:
        """A new section. Small ones are the most."""
        self._version += 1
        size = int(SECTION_MAX * self._random.random() ** 4)
        return section(self._number, self._version, size)

    def _found(self, path: str) -> int:
        """The version that is there, 0 for none."""
        try:
            return version_of(read_pieces(path, self._random))
        except FileNotFoundError:
            return 0

    def _settle(self, number: int, allowed: Sequence[int], what: str) -> None:
        """Looks what a change has made of a name, which is what all must see from now on."""
        found = self._found(self._path(number))
        where = path_of(self._number, number)
        self.log.append(f"{time.monotonic():.3f} {where}: {what}: {found} of {list(allowed)}")
        assert found in allowed, f"{what} left {where} at {found}, not one of {allowed}"
        self._board.end(self._slot(number), found)

    # ---- children ----

    def _child(self, work: Work, safe: bytes = b"") -> tuple[bytes, bool]:
        """Runs `work` in a child that may be killed, with children of its own: how far it came, and
        whether it was killed. safe: the mark from which on it may be."""
        ours, its = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setpgid(0, 0)
                signal.alarm(CHILD_LIMIT_S)
                work(lambda mark: _send(its, mark))
                code = 0
            except BaseException as error:
                with contextlib.suppress(BaseException):
                    os.write(its, b"!" + repr(error).encode())
            finally:
                os._exit(code)
        os.close(its)
        killed = self._random.randrange(KILLED_ONE_IN) == 0
        before = b""
        while killed and safe not in before and (mark := os.read(ours, 1)):
            before += mark
        if killed:
            time.sleep(self._random.random() ** 2 * 0.06)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if killed:
            wait_for(lambda: not group_runs(pid), "the end of a killed child's children")
        with open(ours, "rb") as stream:
            marks = before + stream.read()
        code = os.waitstatus_to_exitcode(status)
        if b"!" in marks or code not in (0, -signal.SIGKILL):
            raise AssertionError(f"a child ended with {code}: {marks!r}")
        return marks, code != 0

    def _pour(self, fd: int, data: bytes) -> None:
        """Writes in pieces, with pauses, and sometimes makes it durable."""
        chance = random.Random(self._version)
        view = memoryview(data)
        while view:
            piece = view[: chance.choice([50, 4096, 60_000, 200_000])]
            view = view[os.write(fd, piece) :]
            if chance.randrange(3) == 0:
                time.sleep(chance.random() * 0.01)
        if chance.randrange(4) == 0:
            os.fsync(fd)

    def _change(self, what: str, number: int, work: Work, safe: bytes = b"") -> None:
        """A change of one name in a child that marks "1" before it closes and "2" when it has."""
        old, new = self._there(number), self._version
        self._board.begin(self._slot(number))
        steps, killed = self._child(work, safe)
        steps = steps.replace(b"0", b"")
        allowed = [new] if b"2" in steps or not killed else [old, new] if steps else [old]
        self._settle(number, allowed, f"{what}{' killed' if killed else ''} {steps!r}")
        self._count(f"{what}{' killed' if killed else ''}")

    def _count(self, what: str) -> None:
        self.outcomes[what] = self.outcomes.get(what, 0) + 1

    # ---- what it does ----

    def write(self) -> None:
        """A new file, or all of an old one anew."""
        number = self._pick()
        assert number is not None
        path, data = self._path(number), self._next()

        def work(mark: Mark) -> None:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            self._pour(fd, data)
            mark(b"1")
            os.close(fd)
            mark(b"2")

        self._change("write", number, work)

    def add(self) -> None:
        """One more section at the end."""
        number = self._pick(present=True)
        if number is None or os.stat(self._path(number)).st_size > FILE_MAX:
            return
        path, data = self._path(number), self._next()

        def work(mark: Mark) -> None:
            with open(path, "ab", buffering=0) as stream:
                self._pour(stream.fileno(), data)
                mark(b"1")
            mark(b"2")

        self._change("append", number, work)

    def patch(self) -> None:
        """Other bytes in the first section."""
        number = self._pick(present=True)
        if number is None:
            return
        path = self._path(number)
        self._version += 1
        _, _, length = next(sections(read_pieces(path, self._random)))
        data = section(self._number, self._version, length - len(section(0, 0, 0)))

        def work(mark: Mark) -> None:
            fd = os.open(path, os.O_RDWR)
            self._pour(fd, data)
            mark(b"1")
            os.close(fd)
            mark(b"2")

        self._change("patch", number, work)

    def copied(self) -> None:
        """Another program writes."""
        number = self._pick()
        assert number is not None
        path = self._path(number)
        self._scratch.write_bytes(self._next())
        argv = self._random.choice([
            ["cp", str(self._scratch), path],
            ["sh", "-c", 'exec cat "$0" >"$1"', str(self._scratch), path],
            ["sh", "-c", 'cat "$0" >"$1"; true', str(self._scratch), path],
            ["dd", f"if={self._scratch}", f"of={path}", "bs=10000", "status=none"],
        ])  # fmt: skip

        def work(mark: Mark) -> None:
            mark(b"1")
            os.execvp(argv[0], argv)

        self._change(f"{argv[0]} {argv[2][:8] if argv[0] == 'sh' else ''}".strip(), number, work)

    def left_open(self) -> None:
        """A program that ends without closing what it wrote."""
        number = self._pick()
        assert number is not None
        path, data = self._path(number), self._next()

        def work(mark: Mark) -> None:
            self._pour(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), data)
            mark(b"1")

        self._change("left open", number, work)

    def heir(self) -> None:
        """A child of the child writes the rest. None is killed before the other has closed it:
        one killed while the other goes on, and then closes it in order, decides nothing."""
        number = self._pick()
        assert number is not None
        path, data = self._path(number), self._next()

        def work(mark: Mark) -> None:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            self._pour(fd, data[: len(data) // 2])
            if pid := os.fork():
                os.close(fd)
                mark(b"0")
                os.waitpid(pid, 0)
                return
            self._pour(fd, data[len(data) // 2 :])
            mark(b"1")
            os.close(fd)
            mark(b"2")
            os._exit(0)

        self._change("heir", number, work, safe=b"0")

    def write_beside(self) -> None:
        """A file of another name is finished, and takes the place of the old one."""
        number = self._pick()
        assert number is not None
        path, data = self._path(number), self._next()
        beside = self._full(
            os.path.join(self._random.choice(DIRECTORIES), f"beside-{self._number}.part")
        )

        def work(mark: Mark) -> None:
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._pour(fd, data)
            os.close(fd)
            mark(b"1")
            os.rename(beside, path)
            mark(b"2")

        self._change("rename over", number, work)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        assert not os.path.lexists(beside)

    def remove(self) -> None:
        """A name goes."""
        number = self._pick(present=True)
        if number is not None:
            self._board.begin(self._slot(number))
            os.unlink(self._path(number))
            self._settle(number, [0], "unlink")
            self._count("unlink")

    def rename(self) -> None:
        """One name becomes another, which may be there."""
        source, target = self._pick(present=True), self._pick()
        if source is None or target is None or source == target:
            return
        version = self._there(source)
        for number in (source, target):
            self._board.begin(self._slot(number))
        os.rename(self._path(source), self._path(target))
        self._settle(source, [0], "rename from")
        self._settle(target, [version], "rename to")
        self._count("rename")

    def move(self) -> None:
        """The writer's own directory becomes another, with all that is in it."""
        sides = [[NAMES + side * MOVING + n for n in range(MOVING)] for side in (0, 1)]
        here, there = sides[self._side], sides[1 - self._side]
        versions = [self._there(number) for number in here]
        for number in here + there:
            self._board.begin(self._slot(number))
        names = [os.path.dirname(self._path(side[0])) for side in (here, there)]
        os.rename(*names)
        for number in here:
            self._settle(number, [0], "moved from")
        for number, version in zip(there, versions, strict=True):
            self._settle(number, [version], "moved to")
        self._side = 1 - self._side
        self._count("move")

    def fight(self) -> None:
        """What others want, too: whoever wins, whatever is there is whole."""
        number = self._random.randrange(SHARED)
        path = self._full(os.path.join(DIRECTORIES[number % len(DIRECTORIES)], f"shared-{number}"))
        beside = f"{path}.{self._number}"
        kind = self._random.choice(["cut", "exclusive", "rename", "unlink", "read"])
        data = self._next()

        def work(mark: Mark) -> None:
            flags = os.O_EXCL if kind == "exclusive" else os.O_TRUNC
            target = beside if kind == "rename" else path
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | flags, 0o644)
            fcntl.flock(fd, fcntl.LOCK_EX)  # another on this node may have it open, too
            os.ftruncate(fd, 0)
            self._pour(fd, data)
            os.close(fd)
            if kind == "rename":
                os.rename(beside, path)

        def tolerant(mark: Mark) -> None:
            try:
                work(mark)
            except OSError as error:
                if error.errno not in FIGHT_LOST[kind]:
                    raise

        if kind == "read":
            self._found(path)
        elif kind == "unlink":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        else:
            self._child(tolerant)
        if kind == "rename":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside)
        self._count(f"fight: {kind}")
