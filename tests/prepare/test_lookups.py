"""How paths are found in an index: by dentries, and by slots where two paths have the same hash."""

from __future__ import annotations

import errno
import os
from itertools import count, islice
from pathlib import Path

import pytest
from inprocess import call
from path_hashes import path_hash
from serving import make_stage

from fanstore._native import lib
from fanstore.dataset import open_dataset

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


def lengths(data: Path) -> tuple[int, int]:
    with open_dataset(data) as dataset:
        kinds = (lib.FAN_SECTION_SLOTS, lib.FAN_SECTION_DENTRIES)
        return tuple(len(dataset.section(kind)) for kind in kinds)  # type: ignore[return-value]


NAMES = {
    "none": [b"only/one"],
    "short and long": [b"%c" % 97 * n for n in range(1, 256)],
    "alike for 32 bytes": [b"a" * 32 + b"%d" % n for n in range(300)],
    "no text": [bytes([n]) for n in range(1, 256) if n not in b"./"],
    "several parts": [b"%d/%d" % (n % 7, n) for n in range(5000)],
}


@pytest.mark.parametrize("kind", NAMES)
def test_every_path_is_found_and_no_other(tmp_path: Path, kind: str) -> None:
    _, data = packed(tmp_path, NAMES[kind])
    assert lengths(data)[0] == 0 < lengths(data)[1]
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
    assert lengths(data)[1] == 0 < lengths(data)[0]
    stage = make_stage(tmp_path)
    stage.run(data, "diff", "-r", str(source), str(stage.mount))
