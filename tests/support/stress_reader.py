"""A process that looks at outputs which others change, and knows what it may see."""

from __future__ import annotations

import contextlib
import os
import random
import time
import traceback
from collections import Counter
from pathlib import Path

from stress_content import Board, Torn, read_pieces, version_of
from stress_writer import DIRECTORIES, SLOTS, path_of

WRONG_MAX = 20
INPUTS = {f"input/in-{n}": random.Random(n).randbytes(50_000 * n) for n in range(4)}


def is_partial(relpath: str) -> bool:
    """Whether a name says that its writer was killed."""
    return ".partial" in os.path.basename(relpath)


def is_input(relpath: str) -> bool:
    """Whether a path is one of the dataset's files."""
    return relpath in INPUTS


class Reader:
    """Looks at outputs on one rank. seen: how many files and listings; wrong: what was."""

    def __init__(self, mount: str, board: Board, writers: int, seed: str) -> None:
        self._mount = mount
        self._board = board
        self._writers = writers
        self._random = random.Random(seed)
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []

    def look_until(self, deadline_s: float) -> None:
        """Looks at one thing after the other."""
        steps = [self.own] * 6 + [self.listing] * 2 + [self.walk, self.hold, self.input]
        while time.monotonic() < deadline_s and len(self.wrong) < WRONG_MAX:
            step = self._random.choice(steps)
            try:
                step()
            except (OSError, AssertionError, Torn):
                said = traceback.format_exc(limit=-3)
                self.wrong.append(f"{time.monotonic():.3f} reader, {step.__name__}: {said}")
            time.sleep(self._random.random() * 0.004)

    def _version(self, relpath: str) -> int:
        self.seen["files"] += 1
        try:
            return version_of(read_pieces(os.path.join(self._mount, relpath), self._random))
        except FileNotFoundError:
            self.seen["files"] -= 1
            return 0
        except Torn as error:
            raise Torn(f"{relpath}: {error}") from None

    def own(self) -> None:
        """A name of one writer: exactly what that says, unless it changes it just now."""
        writer, number = self._random.randrange(self._writers), self._random.randrange(SLOTS)
        before = self._board.look(writer * SLOTS + number)
        found = self._version(path_of(writer, number))
        if before == self._board.look(writer * SLOTS + number) and before.epoch % 2 == 0:
            relpath = path_of(writer, number)
            assert found == before.version, f"{relpath}: {found}, must be {before.version}"
            self.seen["settled names"] += 1

    def listing(self) -> None:
        """A directory lists what is there, and only that."""
        slots = [(writer, n) for writer in range(self._writers) for n in range(SLOTS)]
        directory = os.path.dirname(path_of(*self._random.choice(slots)))
        paths = {s: path_of(*s) for s in slots if os.path.dirname(path_of(*s)) == directory}
        before = {s: self._board.look(s[0] * SLOTS + s[1]) for s in paths}
        try:
            names = os.listdir(os.path.join(self._mount, directory))
        except FileNotFoundError:
            names = []  # it moves
        assert len(names) == len(set(names)), f"{directory}: a name twice: {sorted(names)}"
        for slot, sight in before.items():
            if sight.epoch % 2 == 0 and self._board.look(slot[0] * SLOTS + slot[1]) == sight:
                listed = os.path.basename(paths[slot]) in names
                assert listed == bool(sight.version), f"{paths[slot]}: listed {listed}, {sight}"
                self.seen["settled listed names"] += 1

    def walk(self) -> None:
        """All that a directory lists is whole, or gone by now."""
        directory = self._random.choice(DIRECTORIES)
        for entry in os.scandir(os.path.join(self._mount, directory)):
            relpath = os.path.join(directory, entry.name)
            whole = not is_input(relpath) and not is_partial(relpath)
            if whole and not entry.is_dir(follow_symlinks=False):
                self._version(relpath)

    def hold(self) -> None:
        """What is open does not change, whatever becomes of its name."""
        writer, number = self._random.randrange(self._writers), self._random.randrange(SLOTS)
        with contextlib.suppress(FileNotFoundError):
            path = os.path.join(self._mount, path_of(writer, number))
            with open(path, "rb", buffering=0) as stream:
                first = stream.read()
                time.sleep(self._random.random() * 0.1)
                assert os.pread(stream.fileno(), len(first) + 1, 0) == first, path
                self.seen["held files"] += 1

    def input(self) -> None:
        """Inputs stay what they are."""
        relpath = self._random.choice(sorted(INPUTS))
        found = Path(self._mount, relpath).read_bytes()
        assert found == INPUTS[relpath], relpath
        self.seen["inputs"] += 1
