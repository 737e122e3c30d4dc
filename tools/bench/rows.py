"""The rows of the table: kinds of files, the operations on them, and the goals. Data only."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Kind:
    """Files of one size: `files_each` files in each of `folders` folders, whose names end in
    `suffix`.

    `content`: random, text (compressible), jpeg or npy."""

    name: str
    file_bytes: int
    folders: int
    files_each: int
    content: str = "random"
    suffix: str = ""

    @property
    def files(self) -> int:
        return self.folders * self.files_each


KINDS = (
    Kind("4k", 4 * KIB, 16, 512),
    Kind("16k", 16 * KIB, 16, 128),
    Kind("128k", 128 * KIB, 16, 64),
    Kind("512k", 512 * KIB, 16, 16),
    Kind("2m", 2 * MIB, 8, 8),
    Kind("8m", 8 * MIB, 4, 4),
    Kind("jpeg", 0, 8, 32, "jpeg", ".jpg"),
    Kind("npy", 128 * KIB, 8, 64, "npy", ".npy"),
)
# The file sizes of the paper's figures.
SIZES = ("4k", "16k", "128k", "512k", "2m", "8m")
TITLES = {
    "4k": "4 KiB", "16k": "16 KiB", "128k": "128 KiB", "512k": "512 KiB", "2m": "2 MiB",
    "8m": "8 MiB", "jpeg": "JPEG", "npy": "128 KiB",
}  # fmt: skip

C, PYTHON = "C", "Python"


@dataclass(frozen=True)
class Row:
    """One operation on one kind of files. `goal`: the ratio to the directory that must be reached;
    `held`: the row must also be ahead of every peer."""

    key: str
    title: str
    reader: str
    operation: str
    kind: str
    unit: str = "file"
    goal: float | None = None
    held: bool = True
    threaded: bool = False


@dataclass(frozen=True)
class Case:
    """A row with this number of processes, each with this number of threads."""

    row: Row
    processes: int
    threads: int

    @property
    def key(self) -> str:
        parts = [self.row.key]
        parts += [f"{self.processes}p"] if self.processes > 1 else []
        parts += [f"{self.threads}t"] if self.threads > 1 else []
        return "-".join(parts)


def _sizes(form: str, title: str, operation: str, goals: dict[str, float]) -> list[Row]:
    return [
        Row(
            form.format(size), title.format(TITLES[size]), C, operation, size,
            goal=goals.get(size), threaded=operation == "read",
        )
        for size in SIZES
    ]  # fmt: skip


READ_GOALS = {"4k": 4.0, "16k": 3.0, "128k": 1.6, "512k": 1.25, "2m": 1.2, "8m": 1.15}
READ16_GOALS = {"128k": 1.8, "2m": 4.0, "8m": 4.0}

ROWS: tuple[Row, ...] = (
    *_sizes("read-{}", "read {}", "read", READ_GOALS),
    *_sizes("read16-{}", "read {}, unaligned", "read16", READ16_GOALS),
    Row("child-4k", "read 4 KiB once, new child", C, "child-read", "4k"),
    Row("child-128k", "read 128 KiB once, new child", C, "child-read", "128k", goal=1.1),
    Row("child-2m", "read 2 MiB once, new child", C, "child-read", "2m"),
    Row("pread", "random pread of 4 KiB", C, "pread", "8m", "call"),
    Row("mmap-128k", "mmap + touch 128 KiB", C, "mmap", "128k", held=False),
    Row("mmap-2m", "mmap + touch 2 MiB", C, "mmap", "2m", held=False),
    Row("fread-4k", "fopen + fread 4 KiB", C, "fread", "4k"),
    Row("fread-128k", "fopen + fread 128 KiB", C, "fread", "128k"),
    Row("stat", "stat", C, "stat", "4k", "call", 15.0, threaded=True),
    Row("missing", "stat, missing name", C, "missing", "4k", "call", 15.0),
    Row("access", "access", C, "access", "4k", "call"),
    Row("open", "open + close", C, "open", "4k", "file", 5.0, threaded=True),
    Row("readdir", "readdir", C, "readdir", "4k", "entry", 10.0),
    Row("walk", "walk: readdir + lstat", C, "walk", "4k", "entry", 10.0),
    Row("py-read-4k", "Python open().read() 4 KiB", PYTHON, "read", "4k"),
    Row("py-read-128k", "Python open().read() 128 KiB", PYTHON, "read", "128k", goal=1.4),
    Row("py-read-2m", "Python open().read() 2 MiB", PYTHON, "read", "2m"),
    Row("py-stat", "Python os.stat", PYTHON, "stat", "4k", "call", 4.0),
    Row("py-scandir", "Python os.scandir", PYTHON, "scandir", "4k", "entry", 2.0),
    Row("py-npload", "Python np.load 128 KiB", PYTHON, "npload", "npy"),
    Row("py-pillow", "Python Pillow decode", PYTHON, "pillow", "jpeg"),
    Row("py-dataloader", "Python DataLoader epoch", PYTHON, "dataloader", "128k"),
)
THREADS = (2, 4, 8)


def cases(quick: bool) -> list[Case]:
    """Returns all cases: every row alone, every row in two processes, some rows with threads."""
    found = [Case(row, 1, 1) for row in ROWS if not (quick and row.key == "py-dataloader")]
    if quick:
        return found
    found += [Case(row, 2, 1) for row in ROWS]
    return found + [Case(row, 1, n) for row in ROWS if row.threaded for n in THREADS]


def chosen(key: str, patterns: Sequence[str] | None) -> bool:
    """Returns whether --rows selects a key; patterns are those of the shell."""
    return patterns is None or any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)
