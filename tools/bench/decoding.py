"""Measures reads of compressed packs, compared with the decoder alone on the same bytes."""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from data import make_files, smaller
from peers import FANSTORE, Place, serving
from readers import (
    Reader,
    ReaderEnded,
    compile_c,
    compile_reader,
    start_reader,
    wall_ns_per_unit,
)
from results import OURS, Goal, Result
from rows import KIB, MIB, TITLES, C, Kind
from warm import Settings, say

from fanstore.dataset import open_dataset

DECODER = "decoder"
RATIO = 0.9
KINDS = (
    Kind("128k", 128 * KIB, 8, 64, "text"),
    Kind("512k", 512 * KIB, 8, 16, "text"),
    Kind("2m", 2 * MIB, 8, 4, "text"),
    Kind("8m", 8 * MIB, 2, 4, "text"),
)
CODECS = {"lz4": "LZ4_decompress_safe", "zstd": "ZSTD_decompress"}


def row_keys() -> list[str]:
    """Returns the keys of the rows."""
    return [f"{codec}-{kind.name}" for codec in CODECS for kind in KINDS]


def write_list(dataset: Path, out: Path) -> tuple[Path, int, float]:
    """Returns the path of the list that the decoder reads, the block size, and the ratio of
    compression."""
    with open_dataset(dataset) as opened, out.open("w") as stream:
        logical = stored = 0
        for pack in range(opened.pack_count):
            for record in opened.records_of_pack(pack):
                row = opened.records[record]
                kind = os.fsdecode(opened.relpath(record)).split("/")[0]
                sizes = int(row["stored_size"]), int(row["logical_size"])
                print(kind, opened.pack_path(pack), int(row["offset"]), *sizes, file=stream)
                stored, logical = stored + sizes[0], logical + sizes[1]
        return out, opened.block_bytes, logical / max(1, stored)


@contextmanager
def sides(
    work: Path, source: Path, codec: str, reader: Path
) -> Iterator[tuple[Reader, Reader, float]]:
    """Yields the decoder, a reader under FanStore, and the ratio of compression."""
    dataset = work / f"dataset-{codec}"
    subprocess.run(
        [*FANSTORE, "prepare", "--quiet", "--codec", codec, source, dataset],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    entries, block_bytes, compression = write_list(dataset, work / f"list-{codec}")
    program = compile_c(work, ("decode.c", "paths.c"), "-ldl")
    decoder = Reader([program, codec, str(block_bytes), entries])
    try:
        with serving(OURS + codec, Place(work, source, dataset), dataset) as peer:
            ours = start_reader(peer, reader, C, 1)
            try:
                yield decoder, ours, compression
            finally:
                ours.close()
    finally:
        decoder.close()


def measure_kind(
    codec: str, kind: Kind, readers: dict[str, Reader], settings: Settings, note: str
) -> Result:
    """Measures and returns one row."""
    say(f"{codec}, {TITLES[kind.name]}")
    times: dict[str, list[float]] = {name: [] for name in readers}
    readers[OURS].ask("sum", kind.name)
    for repetition in range(settings.repetitions + 1):
        for name, reader in readers.items():
            operation = "read" if name == OURS else "decode"
            answer = reader.ask(operation, kind.name, 1, settings.window_ns)
            if repetition > 0:
                times[name].append(wall_ns_per_unit([answer]))
    return Result(
        "compressed", f"{codec}-{kind.name}", f"{codec} {TITLES[kind.name]}", "file",
        {name: statistics.median(values) for name, values in times.items()},
        {name: (min(values), max(values)) for name, values in times.items()},
        [Goal(DECODER, RATIO)], note, kind.file_bytes,
    )  # fmt: skip


def measure(
    work: Path, wanted: Sequence[str], settings: Settings
) -> tuple[list[Result], list[str]]:
    """Returns the rows of `wanted`, and the reasons why others are missing."""
    reader = compile_reader(work)
    source = work / "source-text"
    results, skipped = [], []
    needed = [kind for kind in KINDS if any(key.endswith(f"-{kind.name}") for key in wanted)]
    make_files(source, [smaller(kind) if settings.quick else kind for kind in needed])
    for codec, function in CODECS.items():
        if not any(key.startswith(f"{codec}-") for key in wanted):
            continue
        try:
            with sides(work, source, codec, reader) as (decoder, ours, compression):
                readers = {DECODER: decoder, OURS: ours}
                note = f"{function}, {compression:.1f} times smaller"
                for kind in KINDS:
                    if f"{codec}-{kind.name}" in wanted:
                        results.append(measure_kind(codec, kind, readers, settings, note))
        except ReaderEnded:
            skipped.append(f"{codec}: its library is not there")
    return results, skipped
