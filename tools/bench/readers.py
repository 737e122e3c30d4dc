"""Reader processes: compiles them, starts them under a peer, sends requests and ends them."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from peers import Peer
from rows import PYTHON

HERE = Path(__file__).resolve().parent
FLAGS = "-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -pthread".split()
READER = ("reader.c", "operations.c", "paths.c")
WHOLE = ("whole.c", "paths.c")  # what programs are compiled with that read whole files
ANSWER_LIMIT_S = 120


class ReaderEnded(Exception):
    """A reader ended without an answer."""


def compile_c(out: Path, sources: Sequence[str], *libraries: str) -> Path:
    """Builds a program from files in c/, named after the first file."""
    program = out / Path(sources[0]).stem
    compiler = shlex.split(os.environ.get("CC", "cc"))
    files = [HERE / "c" / source for source in sources]
    subprocess.run([*compiler, *FLAGS, "-o", program, *files, *libraries], check=True)
    return program


def compile_reader(out: Path) -> Path:
    """Builds the C reader."""
    return compile_c(out, READER)


@dataclass(frozen=True)
class Answer:
    """The answer to a request: units, start and end on the wall clock, and a sum over the
    content."""

    units: int
    start_ns: int
    end_ns: int
    seen: int


def wall_ns_per_unit(answers: Sequence[Answer]) -> float:
    """Nanoseconds per unit of all answers together: from the first start to the last end.

    Rates are never added: processes that share a core would be counted as if each had one."""
    start, end = min(a.start_ns for a in answers), max(a.end_ns for a in answers)
    return (end - start) / sum(answer.units for answer in answers)


class Reader:
    """One reader process."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._name = " ".join(map(str, command))

    def send(self, line: str) -> None:
        """Sends a request."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ReaderEnded(self._name) from error

    def receive(self) -> str:
        """Returns the line that answers. Raises ReaderEnded, also after ANSWER_LIMIT_S."""
        out = self._process.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], ANSWER_LIMIT_S)
        line = out.readline() if ready else ""
        if not line:
            raise ReaderEnded(self._name)
        return line.strip()

    def ask(self, operation: str, kind: str, threads: int = 1, window_ns: int = 0) -> Answer:
        """Sends one request and returns the answer."""
        self.send(f"{operation} {kind} {threads} {window_ns}")
        return parse(self.receive())

    def ns_per_unit(self, operation: str, kind: str, window_ns: int) -> float:
        """Sends one request. Returns the wall-clock nanoseconds per unit."""
        return wall_ns_per_unit([self.ask(operation, kind, 1, window_ns)])

    def close(self) -> None:
        """Lets the reader end, or kills it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def parse(line: str) -> Answer:
    """Returns an answer, parsed from its line."""
    units, start_ns, end_ns, seen = map(int, line.split())
    return Answer(units, start_ns, end_ns, seen)


def start_reader(peer: Peer, program: Path, language: str, seed: int) -> Reader:
    """Returns a reader of the peer's files, in C (`program`) or Python."""
    what = [sys.executable, str(HERE / "pyreader.py")] if language == PYTHON else [str(program)]
    return Reader([*peer.command, *what, str(peer.root), str(seed)])


class Team:
    """The readers of one peer: some processes of each language, started when first used."""

    def __init__(self, peer: Peer, program: Path) -> None:
        self.peer = peer
        self._program = program
        self._readers: dict[tuple[str, int], Reader] = {}
        self._sums: dict[tuple[str, int, str], int] = {}

    def reader(self, language: str, number: int = 0) -> Reader:
        """Returns the reader with that number."""
        key = language, number
        if key not in self._readers:
            self._readers[key] = start_reader(self.peer, self._program, language, number + 1)
        return self._readers[key]

    def sum(self, language: str, number: int, kind: str) -> int:
        """Returns a sum over all files of the kind. Reads them only the first time, which also
        warms up."""
        key = language, number, kind
        if key not in self._sums:
            self._sums[key] = self.reader(language, number).ask("sum", kind).seen
        return self._sums[key]

    def ns_per_unit(
        self, language: str, operation: str, kind: str, processes: int, threads: int, window_ns: int
    ) -> float:
        """Sends a request to `processes` readers at once. Returns the wall-clock nanoseconds per
        unit of all of them."""
        readers = [self.reader(language, number) for number in range(processes)]
        for reader in readers:
            reader.send(f"{operation} {kind} {threads} {window_ns}")
        return wall_ns_per_unit([parse(reader.receive()) for reader in readers])

    def close(self) -> None:
        """Ends all readers."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        self._sums.clear()
