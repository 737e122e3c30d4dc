"""Measures reads of compressed packs, compared with the decoder alone on the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from data import make_files, smaller
from peers import Place, prepare, serving
from readers import (
    Reader,
    ReaderEnded,
    compile_c,
    compile_reader,
    start_reader,
)
from results import OURS, Goal, Result
from rows import KIB, MIB, TITLES, C, Kind
from warm import Settings, in_turns, say

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
KEYS = [f"{codec}-{kind.name}" for codec in CODECS for kind in KINDS]


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
    prepare(source, dataset, "--codec", codec)
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
    readers[OURS].ask("sum", kind.name)
    operations = {DECODER: "decode", OURS: "read"}
    sides = {
        name: partial(readers[name].ns_per_unit, operation, kind.name, settings.window_ns)
        for name, operation in operations.items()
    }
    return Result.of(
        "compressed", f"{codec}-{kind.name}", f"{codec} {TITLES[kind.name]}", "file",
        in_turns(sides, settings.repetitions, 1), [Goal(DECODER, RATIO)], note,
        bytes_per_unit=kind.file_bytes,
    )  # fmt: skip


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Yields the rows of `wanted`, and the reasons why others are missing."""
    reader = compile_reader(work)
    source = work / "source-text"
    needed = [kind for kind in KINDS if any(key.endswith(f"-{kind.name}") for key in wanted)]
    make_files(source, [smaller(kind) if settings.quick else kind for kind in needed])
    for codec, function in CODECS.items():
        kinds = [kind for kind in KINDS if f"{codec}-{kind.name}" in wanted]
        if not kinds:
            continue
        try:
            with sides(work, source, codec, reader) as (decoder, ours, compression):
                readers = {DECODER: decoder, OURS: ours}
                note = f"{function}, {compression:.1f} times smaller"
                for kind in kinds:
                    yield measure_kind(codec, kind, readers, settings, note)
        except ReaderEnded:
            yield f"{codec}: its library is not there"
