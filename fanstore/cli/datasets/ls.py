"""fanstore ls: list what a dataset holds."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fanstore.dataset import Dataset


@click.command()
@click.argument("dataset", type=click.Path())
@click.argument("path", default="")
@click.option("-l", "--long", "as_long", is_flag=True, help="Mode, links, owner, size, time.")
@click.option("-R", "--recursive", is_flag=True, help="Directories below, too.")
@click.option("-0", "--null", is_flag=True, help="End names with NUL, for names of any bytes.")
def command(dataset: str, path: str, as_long: bool, recursive: bool, null: bool) -> int:
    """List a directory of DATASET (its root, or PATH in it), sorted by name.

    DATASET may be an address, such as s3://bucket/prefix.

    Names are printed as they are, one a line; -R prints paths from the root of the dataset. A
    damaged index, and packs that are missing or cut off, are named at the end; the exit code is 3.

    \b
    Example:
      fanstore ls -l imagenet.fan train
    """
    from fanstore.errors import DatasetIncomplete
    from fanstore.reading.packs import open_any
    from fanstore.reading.tree import normal
    from fanstore.verify import glance

    end = b"\0" if null else b"\n"
    with open_any(dataset) as opened:
        start = opened.lookup(normal(os.fsencode(path)))
        for record, name in entries(opened, start, recursive):
            line = long_line(opened, record, name) if as_long else name
            sys.stdout.buffer.write(line + end)
        sys.stdout.buffer.flush()
        findings = glance(opened)
    if findings:
        raise DatasetIncomplete(dataset, findings)
    return 0


def entries(dataset: Dataset, start: int, recursive: bool) -> Iterator[tuple[int, bytes]]:
    """Yields the records to list, and the names to print. A file is listed alone."""
    if not stat.S_ISDIR(int(dataset.records[start]["mode"])):
        yield start, dataset.relpath(start)
        return
    waiting = [(start, dataset.relpath(start) + b"/" if start and recursive else b"")]
    while waiting:
        directory, prefix = waiting.pop()
        below = []
        for child in dataset.children(directory):
            name = prefix + dataset.basename(child)
            yield child, name
            if recursive and stat.S_ISDIR(int(dataset.records[child]["mode"])):
                below.append((child, name + b"/"))
        waiting += reversed(below)


def long_line(dataset: Dataset, record: int, name: bytes) -> bytes:
    """Returns a line as `ls -l --time-style=long-iso` prints it, owners as numbers."""
    row = dataset.records[record]
    mode = int(row["mode"])
    uid, gid = dataset.owner(record)
    size = 4096 if stat.S_ISDIR(mode) else int(row["logical_size"])
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(int(row["mtime_ns"]) // 10**9))
    head = f"{stat.filemode(mode)} {int(row['nlink']):>3} {uid:>5} {gid:>5} {size:>12} {when} "
    arrow = b" -> " + dataset.target(record) if stat.S_ISLNK(mode) else b""
    return head.encode() + name + arrow
