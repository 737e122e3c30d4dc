"""How paths are found in an index, also where two paths have the same hash."""

from __future__ import annotations

import errno
import os
import shutil
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest
import xxhash
from inprocess import call
from path_hashes import path_hash
from serving import make_stage

from fanstore._native import dtype_of, lib
from fanstore.dataset import open_dataset

GOLDEN = Path(__file__).with_name("golden")
MASK = (1 << 64) - 1
ROOT, A, B = 0x9E3779B97F4A7C15, 0xA24BAED4963EE407, 0x9FB21C651E98DF25


def fold(a: int, b: int) -> int:
    return (a * b & MASK) ^ (a * b >> 64)


def equal_names(how_many: int) -> list[bytes]:
    """Names of the root directory with one and the same path hash: the second group of eight bytes
    undoes the first."""
    start = ROOT ^ (24 * A & MASK)

    def names() -> object:
        for number in count():
            first = b"%08d" % number
            second = fold(start ^ int.from_bytes(first, "little"), B).to_bytes(8, "little")
            if b"/" not in second and b"\0" not in second:
                yield first + second + b"the same"

    return list(islice(names(), how_many))  # type: ignore[call-overload]


def packed(tmp_path: Path, names: list[bytes]) -> tuple[Path, Path]:
    source, data = tmp_path / "source", tmp_path / "data"
    for name in names:
        path = os.path.join(os.fsencode(source), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(name)
    call("prepare", source, data)
    call("verify", data)
    return source, data


NAMES = {
    "none": [b"only/one"],
    "short and long": [b"%c" % 97 * n for n in range(1, 256)],
    "alike for 32 bytes": [b"a" * 32 + b"%d" % n for n in range(300)],
    "no text": [bytes([n]) for n in range(1, 256) if n not in b"./"],
    "many": [b"%d/%d" % (n % 7, n) for n in range(5000)],
}


@pytest.mark.parametrize("kind", NAMES)
def test_every_path_is_found_and_no_other(tmp_path: Path, kind: str) -> None:
    _, data = packed(tmp_path, NAMES[kind])
    with open_dataset(data) as dataset:
        found = [dataset.relpath(dataset.lookup(name)) for name in NAMES[kind]]
        assert found == NAMES[kind]
        for name in NAMES[kind]:
            for other in (name + b"x", name[:-1] or b"x", name[::-1]):
                if other not in NAMES[kind] and b"/" not in other:
                    with pytest.raises(OSError) as caught:
                        dataset.lookup(other)
                    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize("how_many", [2, 3000])
def test_paths_with_the_same_hash(tmp_path: Path, how_many: int) -> None:
    names = equal_names(how_many)
    assert len({path_hash(name) for name in names}) == 1
    source, data = packed(tmp_path, [*names, b"below/" + names[0]])
    stage = make_stage(tmp_path)
    stage.run(data, "diff", "-r", str(source), str(stage.mount))


def test_milestones_are_places_of_names(tmp_path: Path) -> None:
    _, data = packed(tmp_path, NAMES["many"])
    with open_dataset(data) as dataset:
        milestones = np.frombuffer(dataset.section(lib.FAN_SECTION_MILESTONES), np.uint64)
        assert (
            milestones[:-1].tolist()
            == dataset.records["name_offset"][:: lib.FAN_RECORDS_PER_MILESTONE].tolist()
        )
        assert milestones[-1] == len(dataset.section(lib.FAN_SECTION_NAMES))


def test_bytes_of_an_index(tmp_path: Path) -> None:
    names = [b"%05d" % n for n in range(30_000)]
    _, data = packed(tmp_path, names)
    assert (data / "index.fsi").stat().st_size < len(names) * (80 + len(names[0]))


def test_slots_of_version_2(tmp_path: Path) -> None:
    """It has slots if two paths have the same hash. They are those of version 1."""
    data = shutil.copytree(GOLDEN / "v1" / "store", tmp_path / "data")
    index = bytearray((data / "index.fsi").read_bytes())
    header = np.frombuffer(index, dtype_of("struct fan_index_header"), 1)
    header["version"], header["section_count"] = 2, lib.FAN_SECTION_MILESTONES
    for kind, size in ((6, 64), (7, 2), (8, 8), (9, 1)):
        header["sections"][0, kind] = (len(index), 0, kind, size)
    header["header_checksum"] = xxhash.xxh3_64_intdigest(bytes(index[:504]))
    (data / "index.fsi").write_bytes(index)
    call("verify", data)
    with open_dataset(data) as dataset:
        assert dataset.relpath(dataset.lookup(b"sub/hard")) == b"sub/hard"
