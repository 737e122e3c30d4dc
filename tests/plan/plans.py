"""A small dataset, and plans for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inprocess import Done, call

MACHINE = """
[system]
nodes = 4
ranks_per_node = 2
compute = "2 MB/s"
preprocess = "200 MB/s"
network = "1 GB/s"

[system.shared]
readers = [1, 2, 4, 8]
rate = ["3 MB/s", "5 MB/s", "9 MB/s", "10 MB/s"]
readers_per_rank = 2

[system.staging_buffer]
capacity = "1 MB"
threads = 2
write = { threads = [1], rate = ["10 GB/s"] }

[[system.classes]]
name = "ram"
capacity = "100 kB"
threads = 2
read = { threads = [1], rate = ["10 GB/s"] }
write = { threads = [1], rate = ["10 GB/s"] }

[[system.classes]]
name = "disk"
capacity = "200 kB"
threads = 2
read = { threads = [1], rate = ["1 GB/s"] }
write = { threads = [1], rate = ["1 GB/s"] }
"""

JOB = ("--epochs", "3", "--batch", "4", "--order", "torch-distributed", "--seed", "7")


def make_dataset(folder: Path, name: str = "data", salt: int = 0) -> Path:
    """A dataset of 60 files in train/a, train/b and train/c, and one in val."""
    source = folder / f"{name}-source"
    for number in range(60):
        directory = source / "train" / "abc"[number % 3]
        directory.mkdir(parents=True, exist_ok=True)
        size = 1 + (number + salt) * 2111 % 30_000
        (directory / f"{number:02}").write_bytes(bytes([number]) * size)
    (source / "val").mkdir()
    (source / "val" / "0").write_bytes(b"val")
    call("prepare", source, folder / name, "--quiet")
    return folder / name


def machine(folder: Path, *changes: tuple[str, str]) -> Path:
    """The file of a machine; changes: texts that stand in for others."""
    text = MACHINE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "machine.toml"
    path.write_text(text)
    return path


def plan(folder: Path, dataset: Path, *arguments: Any, code: int = 0) -> Done:
    """Makes the plan folder/p.plan of a job on that machine."""
    if not (folder / "machine.toml").exists():
        machine(folder)
    where = ("--machine", folder / "machine.toml", "--out", folder / "p.plan")
    under = () if "--under" in arguments else ("--under", "train")
    return call(
        "study", "plan", dataset, *where, *under, *map(str, arguments), "--quiet", code=code
    )
