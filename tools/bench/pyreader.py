"""The Python side of the comparison: answers like c/reader.c, with the calls of Python programs.

    pyreader.py DIR SEED
    OPERATION KIND THREADS WINDOW_NS   ->   UNITS START_NS END_NS SUM
    can OPERATION                      ->   yes | no REASON

Ordinary Python, no use of FanStore."""

from __future__ import annotations

import importlib
import os
import random
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import Any, NamedTuple

# Modules that an operation needs besides the standard library.
NEEDS = {"pillow": "PIL.Image", "npload": "numpy", "dataloader": "torch.utils.data"}
LOADER_WORKERS, LOADER_BATCH = 2, 32


class Kind(NamedTuple):
    """The paths of one kind of files, and of their folders."""

    folders: list[str]
    files: list[str]


class Files:
    """A map-style dataset for PyTorch: the bytes of each file."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> bytes:
        with open(self.paths[number], "rb") as stream:
            return stream.read()


def list_kind(top: str, name: str) -> Kind:
    folders = sorted(entry.path for entry in os.scandir(f"{top}/{name}"))
    return Kind(folders, sorted(e.path for folder in folders for e in os.scandir(folder)))


def run_read(path: str) -> int:
    with open(path, "rb") as stream:
        stream.read()
    return 1


def run_stat(path: str) -> int:
    os.stat(path)
    return 1


def run_scandir(path: str) -> int:
    """Lists a folder and asks for the type of each entry, as os.walk does."""
    with os.scandir(path) as entries:
        return sum(1 for entry in entries if not entry.is_dir())


def run_pillow(path: str) -> int:
    from PIL import Image

    with Image.open(path) as image:
        image.convert("RGB")
    return 1


def run_npload(path: str) -> int:
    import numpy as np

    np.load(path)
    return 1


# operation: the function for one path, whether it works on files, how many between two reads of the
# clock
OPERATIONS: dict[str, tuple[Callable[[str], int], bool, int]] = {
    "read": (run_read, True, 8),
    "stat": (run_stat, True, 64),
    "scandir": (run_scandir, False, 1),
    "pillow": (run_pillow, True, 1),
    "npload": (run_npload, True, 4),
}


class Task(threading.Thread):
    """One thread's part of a request."""

    def __init__(self, operation: str, kind: Kind, seed: int, window_ns: int) -> None:
        super().__init__()
        self.operation, on_files, self.stride = OPERATIONS[operation]
        self.paths = list(kind.files if on_files else kind.folders)
        random.Random(seed).shuffle(self.paths)
        self.window_ns = window_ns
        self.units = self.start_ns = self.end_ns = 0

    def run(self) -> None:
        operation, paths, stride = self.operation, self.paths, self.stride
        at, units, start = 0, 0, monotonic_ns()
        while True:
            for path in paths[at : at + stride]:
                units += operation(path)
            at += stride
            end = monotonic_ns()
            if end - start >= self.window_ns if self.window_ns else at >= len(paths):
                break
            if at >= len(paths):
                at = 0
        self.units, self.start_ns, self.end_ns = units, start, end


def measure(operation: str, kind: Kind, threads: int, window_ns: int, seed: int) -> str:
    if operation == "sum":
        return f"{len(kind.files)} 0 1 {sum_of(kind.files)}"
    if operation == "dataloader":
        return load_epoch(kind, seed)
    tasks = [Task(operation, kind, seed + number, window_ns) for number in range(threads)]
    for task in tasks[1:]:
        task.start()
    tasks[0].run()
    for task in tasks[1:]:
        task.join()
    units = sum(task.units for task in tasks)
    start, end = min(task.start_ns for task in tasks), max(task.end_ns for task in tasks)
    return f"{units} {start} {end} 0"


def load_epoch(kind: Kind, seed: int) -> str:
    """Runs one epoch of a new DataLoader, including the start of its workers."""
    import torch

    torch.manual_seed(seed)
    data: Any = Files(kind.files)
    loader = torch.utils.data.DataLoader(
        data, LOADER_BATCH, shuffle=True, num_workers=LOADER_WORKERS, collate_fn=len
    )
    start = monotonic_ns()
    files = sum(loader)
    return f"{files} {start} {monotonic_ns()} 0"


def sum_of(paths: list[str]) -> int:
    """Returns a sum that depends on every byte of the files."""
    total = 0
    for path in paths:
        total += zlib.crc32(Path(path).read_bytes())
    return total


def can(operation: str) -> str:
    try:
        importlib.import_module(NEEDS.get(operation, "os"))
    except ImportError as error:
        return f"no {error}"
    return "yes"


def main() -> None:
    top, seed = sys.argv[1], int(sys.argv[2])
    kinds: dict[str, Kind] = {}
    for line in sys.stdin:
        words = line.split()
        if words[0] == "can":
            print(can(words[1]), flush=True)
            continue
        operation, name, threads, window_ns = words
        if name not in kinds:
            kinds[name] = list_kind(top, name)
        seed += 1009
        print(measure(operation, kinds[name], int(threads), int(window_ns), seed), flush=True)


if __name__ == "__main__":
    main()
