"""Damaged and hostile datasets: refused by name, or an error for one file; never a crash."""

from __future__ import annotations

import random
import re
import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import xxhash
import zstandard
from inprocess import call
from serving import Stage, find_content, flip, make_stage
from soak import one_of

from fanstore._native import dtype_of, lib
from fanstore.dataset import open_dataset, open_index
from fanstore.decoding import ContentDamaged, decode_block
from fanstore.errors import DatasetDamaged

HEADER = dtype_of("struct fan_index_header")
SECTION = dtype_of("struct fan_section")
RECORD = dtype_of("struct fan_record")
PACK_HEADER = dtype_of("struct fan_pack_header")
TRAILER = dtype_of("struct fan_pack_trailer")
SECTIONS = (
    "records", "slots", "names", "owners", "links", "packs", "dentries", "pilots", "parts", "tags",
    "milestones",
)  # fmt: skip
UNUSED = ("dentries", "pilots", "parts", "tags")  # since version 3
HUGE = (1 << 64) - 1
DAMAGED = 3
GOLDEN = Path(__file__).with_name("golden")

# Where a header's own checks end and its checksum is what tells.
CHECKED = ("magic", "version", "layout_id", "file_bytes", "section_count")


def at_of(dtype: object, field: str) -> int:
    return int(dtype.fields[field][1])  # type: ignore[attr-defined]


def bytes_of(dtype: object, field: str) -> int:
    return int(dtype.fields[field][0].itemsize)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two packs, with directories, links and compressed files of several blocks."""
    base = tmp_path_factory.mktemp("sound")
    root = base / "source"
    for name in ("a/one", "a/two", "b/deep/three", "c/four"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(random.Random(name).randbytes(1500))
    (root / "blocks").write_bytes(b"".join(b"%d times\n" % i for i in range(4000)))
    (root / "large").write_bytes(random.Random(9).randbytes(100_000))
    (root / "link").symlink_to("a/one")
    (root / "again").hardlink_to(root / "large")
    options = ("--codec", "lz4", "--block-size", "4K", "--partitions", "2")
    call("prepare", root, base / "data", *options)
    call("verify", base / "data")
    return base / "data"


@pytest.fixture
def data(sound: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(sound, tmp_path / "data"))


def put(path: Path, at: int, value: int, count: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(value.to_bytes(count, "little"))


def seal(path: Path, start: int, count: int) -> None:
    """Makes right the checksum that ends the `count` bytes from `start`."""
    data = path.read_bytes()[start : start + count - 8]
    put(path, start + count - 8, xxhash.xxh3_64_intdigest(data), 8)


def seal_index(path: Path) -> None:
    """Makes both checksums of an index right."""
    body = xxhash.xxh3_64_intdigest(path.read_bytes()[HEADER.itemsize :])
    put(path, at_of(HEADER, "body_checksum"), body, 8)
    seal(path, 0, HEADER.itemsize)


def refused(path: Path) -> DatasetDamaged:
    with pytest.raises(DatasetDamaged) as caught:
        open_index(path, path.parent, verify=True)
    error = caught.value
    assert (error.file, error.exit_code) == (str(path), DAMAGED)
    assert f"{path}: {error.field} at offset {error.offset}: " in str(error)
    return error


@pytest.mark.parametrize("field", [name for name in HEADER.names or ()])
def test_every_field_of_the_index_header(data: Path, field: str) -> None:
    flip(data / "index.fsi", at_of(HEADER, field))
    error = refused(data / "index.fsi")
    if field in CHECKED:
        assert (error.field, error.offset) == (f"header.{field}", at_of(HEADER, field))
    for arguments in (("info",), ("verify",), ("ls",)):
        done = call(*arguments, data, code=DAMAGED)
        assert done.stderr == f"fanstore: error: {error}\n"


def test_every_byte_of_the_index_header(data: Path) -> None:
    whole = (data / "index.fsi").read_bytes()
    for at in range(HEADER.itemsize):
        flip(data / "index.fsi", at)
        refused(data / "index.fsi")
        flip(data / "index.fsi", at)
    assert (data / "index.fsi").read_bytes() == whole


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((field, value) for field in CHECKED for value in (0, 255, (1 << 32) - 2)),
        ("record_count", 0),
        ("record_count", 7),
        ("record_count", HUGE),
        ("record_count", 1 << 32),
        ("pack_count", 0),
        ("pack_count", 3),
        ("pack_count", (1 << 32) - 1),
        ("max_probe", (1 << 32) - 1),
        ("block_bytes", 0),
        ("block_bytes", 4095),
        ("block_bytes", 12288),
        ("block_bytes", 1 << 31),
    ],
)
def test_index_header_values_that_a_right_checksum_covers(
    data: Path, field: str, value: int
) -> None:
    size = bytes_of(HEADER, field)
    put(data / "index.fsi", at_of(HEADER, field), value % (1 << 8 * size), size)
    seal_index(data / "index.fsi")
    error = refused(data / "index.fsi")
    assert (error.field, error.offset) == (f"header.{field}", at_of(HEADER, field))


@pytest.mark.parametrize("kind", range(len(SECTIONS)))
@pytest.mark.parametrize("field", SECTION.names or ())
def test_every_section_descriptor(data: Path, kind: int, field: str) -> None:
    index = data / "index.fsi"
    at = at_of(HEADER, "sections") + kind * SECTION.itemsize
    size, place = bytes_of(SECTION, field), at + at_of(SECTION, field)
    before = int.from_bytes(index.read_bytes()[place : place + size], "little")
    length = index.stat().st_size
    values = {0, before + 1, length + 64, 1 << 63, (1 << 8 * size) - 1, (1 << 58) + before}
    if field == "offset":
        values |= {64, 448, (1 << 64) - 64}
    if field == "count":
        values |= {1 << 60, 1 << 61, (1 << 64) // 64, length}
    # Fewer links than there are is still an index; names are found short where they are used.
    harmless = {(name, "count") for name in ("names", "owners", "links", *UNUSED)}
    for value in sorted(values):
        value %= 1 << 8 * size
        small = value in (0, before + 1) and (SECTIONS[kind], field) in harmless
        small |= value == before + 1 and (SECTIONS[kind], field) == ("slots", "count")
        if value == before or small:
            continue
        put(index, place, value, size)
        seal_index(index)
        error = refused(index)
        named = (f"sections[{SECTIONS[kind]}]", at)
        counts = {"records": "record_count", "packs": "pack_count"}
        expected = [named]
        if field == "count" and SECTIONS[kind] in counts:
            counted = counts[SECTIONS[kind]]
            expected.append((f"header.{counted}", at_of(HEADER, counted)))
        if SECTIONS[kind] == "slots":
            expected.append(("header.max_probe", at_of(HEADER, "max_probe")))
        assert (error.field, error.offset) in expected


def test_a_truncated_index(data: Path) -> None:
    index = data / "index.fsi"
    whole = index.read_bytes()
    for length in {0, 1, 8, 511, 512, 513, 600, len(whole) // 2, len(whole) - 1}:
        index.write_bytes(whole[:length])
        error = refused(index)
        assert error.field == ("header" if length < 512 else "header.file_bytes")
    index.write_bytes(whole + b"\0")
    assert refused(index).field == "header.file_bytes"


def test_no_byte_of_the_index_goes_unchecked(data: Path) -> None:
    index = data / "index.fsi"
    for at in range(HEADER.itemsize, index.stat().st_size, 37):
        flip(index, at)
        assert refused(index).field in ("header.body_checksum", "records[0].mode")
        flip(index, at)


def verify_refuses(data: Path, pack: Path, field: str, at: int) -> None:
    done = call("verify", data, code=DAMAGED)
    assert f"{pack}: {field} at offset {at}: " in done.stdout.decode() + done.stderr


@pytest.mark.parametrize("pack", [0, 1])
@pytest.mark.parametrize("resealed", [False, True])
@pytest.mark.parametrize("field", [name for name in PACK_HEADER.names or ()])
def test_every_field_of_a_pack_header(data: Path, pack: int, field: str, resealed: bool) -> None:
    path = data / f"pack-{pack:05}.fsp"
    at = at_of(PACK_HEADER, field)
    flip(path, at)
    named = field if field in ("magic", "version", "layout_id") else "checksum"
    if resealed and field != "checksum":
        seal(path, 0, PACK_HEADER.itemsize)
        named = field
    if resealed and field == "reserved":
        return  # a later version's
    verify_refuses(data, path, f"header.{named}", at_of(PACK_HEADER, named))


@pytest.mark.parametrize("resealed", [False, True])
@pytest.mark.parametrize("field", [name for name in TRAILER.names or ()])
def test_every_field_of_a_pack_trailer(data: Path, field: str, resealed: bool) -> None:
    path = data / "pack-00001.fsp"
    base = path.stat().st_size - TRAILER.itemsize
    named = field if field == "magic" else "checksum"
    values = [0, 1, 255, 1 << 63, HUGE, HUGE - 63, base]
    for value in values if resealed and field not in ("magic", "checksum") else [HUGE - 1]:
        put(path, base + at_of(TRAILER, field), value, 8)
        if resealed and field != "checksum":
            seal(path, base, TRAILER.itemsize)
            named = field
        done = call("verify", data, code=DAMAGED)
        text = done.stdout.decode()
        follows = {
            "entries_offset": ("entry_count", "paths_offset"),
            "entry_count": ("paths_offset",),
            "paths_offset": ("paths_bytes",),
        }.get(field, ())
        expected = [f"{path}: trailer.{name} at offset " for name in (named, *follows)]
        expected.append(f"{path}: checksum of the file at offset 0: ")
        assert any(message in text for message in expected), text


def test_a_truncated_pack(data: Path) -> None:
    path = data / "pack-00000.fsp"
    whole = path.read_bytes()
    for length in (0, 63, 64, 4095, 4096, 4159, len(whole) // 2, len(whole) - 64, len(whole) - 1):
        path.write_bytes(whole[:length])
        done = call("verify", data, code=DAMAGED)
        assert f"{path}: " in done.stdout.decode()
    path.write_bytes(whole + b"\0" * 64)
    assert f"{path}: trailer" in call("verify", data, code=DAMAGED).stdout.decode()
    path.unlink()
    assert str(path) in call("verify", data, code=DAMAGED).stdout.decode()


@pytest.mark.parametrize("command", ["info", "ls"])
@pytest.mark.parametrize("harm", ["missing", "cut off", "another's", "index", "all at once"])
def test_tools_that_only_look_name_what_is_damaged(
    data: Path, sound: Path, harm: str, command: str
) -> None:
    whole = call(command, sound).stdout.replace(bytes(sound), bytes(data))
    packs = [data / "pack-00000.fsp", data / "pack-00001.fsp"]
    if harm in ("missing", "all at once"):
        packs[1].unlink()
    if harm in ("cut off", "all at once"):
        with packs[0].open("r+b") as file:
            file.truncate(9000)
    if harm == "another's":
        packs[1].write_bytes(packs[0].read_bytes())
    if harm in ("index", "all at once"):
        flip(data / "index.fsi", (data / "index.fsi").stat().st_size - 20)
    done = call(command, data, code=DAMAGED)
    assert done.stdout == whole
    named = {
        "missing": ["pack-00001.fsp: missing"],
        "cut off": ["pack-00000.fsp: trailer"],
        "another's": ["pack-00001.fsp: header.pack"],
        "index": ["index.fsi: header.body_checksum"],
    }
    for words in named.get(harm, ["pack-00001", "pack-00000", "index.fsi"]):
        assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_lost_index_is_named_with_the_remedy(data: Path) -> None:
    (data / "index.fsi").unlink()
    for command in ("info", "ls", "verify"):
        assert "fanstore dataset rebuild-index" in call(command, data, code=DAMAGED).stderr


def test_packs_that_changed_places(data: Path) -> None:
    (data / "pack-00000.fsp").rename(data / "x")
    (data / "pack-00001.fsp").rename(data / "pack-00000.fsp")
    (data / "x").rename(data / "pack-00001.fsp")
    done = call("verify", data, code=DAMAGED)
    assert done.stdout.decode().count("header.pack at offset ") == 2


@pytest.mark.parametrize("part", ["padding", "entries", "paths", "gap"])
def test_verify_finds_what_no_file_holds(data: Path, part: str) -> None:
    path = data / "pack-00001.fsp"
    whole = path.read_bytes()
    row = whole[-TRAILER.itemsize :]
    entries, paths = (
        int.from_bytes(row[at_of(TRAILER, name) :][:8], "little")
        for name in ("entries_offset", "paths_offset")
    )
    at = {"padding": 100, "entries": entries + 50, "paths": paths + 1, "gap": entries - 1}[part]
    flip(path, at)
    done = call("verify", data, code=DAMAGED)
    assert str(path) in done.stdout.decode()


def find(data: Path, name: str) -> int:
    with open_dataset(data) as dataset:
        return dataset.lookup(name.encode())


def edit(data: Path, name: str, **values: int) -> None:
    """Changes fields of one record, and makes the checksums right."""
    index = data / "index.fsi"
    with open_dataset(data) as dataset:
        base = dataset.record_offset(dataset.lookup(name.encode()))
    for field, value in values.items():
        size = bytes_of(RECORD, field)
        put(index, base + at_of(RECORD, field), value % (1 << 8 * size), size)
    seal_index(index)


def mix(data: Path, kind: int) -> None:
    """Fills a section of the index by chance, and makes the checksums right."""
    index = data / "index.fsi"
    with open_dataset(data) as dataset:
        section = dataset.header.sections[kind]
        start, length = section.offset, section.count * section.entry_bytes
    mixed = bytearray(index.read_bytes())
    mixed[start : start + length] = random.Random(1).randbytes(length)
    index.write_bytes(mixed)
    seal_index(index)


SLOT_LIES = {
    "no record": lambda slot, id_mask: slot | id_mask,
    "another record": lambda slot, id_mask: (slot & ~id_mask) | 2,
    "the root": lambda slot, id_mask: (slot & ~id_mask) | 1,
    "another hash": lambda slot, id_mask: slot ^ (id_mask + 1),
    "empty": lambda slot, id_mask: 0,
}


@pytest.mark.parametrize("name", SLOT_LIES)
def test_a_slot_that_lies(data: Path, stage: Stage, name: str) -> None:
    index = data / "index.fsi"
    with open_dataset(data) as dataset:
        slots = np.frombuffer(dataset.section(lib.FAN_SECTION_SLOTS), np.uint32).copy()
        id_mask = (1 << len(dataset.records).bit_length()) - 1
        place = int(np.flatnonzero((slots & id_mask) == dataset.lookup(b"a/two") + 1)[0])
        start = int(dataset.header.sections[lib.FAN_SECTION_SLOTS].offset)
    put(index, start + 4 * place, SLOT_LIES[name](int(slots[place]), id_mask), 4)
    seal_index(index)
    assert b"is not found by its path" in call("verify", data, code=DAMAGED).stdout
    found = looks(stage, data)  # no program crashes, and the other files are as they were
    assert {"a/two"} <= found.keys() and len(found) == len(NAMES)


def test_slots_by_chance(data: Path, stage: Stage) -> None:
    mix(data, lib.FAN_SECTION_SLOTS)
    assert b"is not found by its path" in call("verify", data, code=DAMAGED).stdout
    assert looks(stage, data).keys() == set(NAMES)


def test_milestones_by_chance_change_nothing(data: Path, stage: Stage) -> None:
    before = looks(stage, data)
    mix(data, lib.FAN_SECTION_MILESTONES)
    assert looks(stage, data) == before


@pytest.mark.parametrize("kind", ["DENTRIES", "PILOTS", "PARTS", "TAGS"])
def test_look_ups_of_version_2_by_chance(tmp_path: Path, stage: Stage, kind: str) -> None:
    data = shutil.copytree(GOLDEN / "v2" / "store", tmp_path / "old")
    call("verify", data)
    mix(data, getattr(lib, f"FAN_SECTION_{kind}"))
    assert b"is not found by its path" in call("verify", data, code=DAMAGED).stdout
    looks(stage, data)


@dataclass(frozen=True)
class Hostile:
    """Fields of one record, made to lie. `files`: those that may fail through the mount; the
    others must read as before."""

    name: str
    values: dict[str, int]
    files: tuple[str, ...] = ()


DEEP = ("b", "b/deep", "b/deep/three")
IN_A = ("a", "a/one", "a/two", "link")
HOSTILE = {
    "parent is itself": Hostile("c/four", {"parent": 1 << 31}, ("c", "c/four")),
    "parent is later": Hostile("b", {"parent": 6}, DEEP),
    "parent is another": Hostile("c/four", {"parent": 1}, ("c", "c/four", "a")),
    "parent is a file": Hostile("c/four", {"parent": 6}, ("c", "c/four")),
    "children from itself": Hostile("b", {"offset": 0}, DEEP),
    "children loop": Hostile("b/deep", {"offset": 2, "stored_size": 2}, DEEP),
    "children outside": Hostile("b", {"offset": 1 << 40}, DEEP),
    "children overflow": Hostile("b", {"stored_size": HUGE}, DEEP),
    "children of another": Hostile("b", {"offset": 9, "stored_size": 2}, DEEP),
    "name outside": Hostile("a/two", {"name_offset": HUGE}, IN_A),
    "name past the end": Hostile("a/two", {"name_offset": 1 << 40}, IN_A),
    "name empty": Hostile("a/two", {"name_bytes": 0}, IN_A),
    "owner outside": Hostile("a/two", {"owner": 65535}, IN_A),
    "a fifo": Hostile("a/two", {"mode": stat.S_IFIFO | 0o644}, IN_A),
    "no type": Hostile("a/two", {"mode": 0o644}, IN_A),
    "a directory": Hostile("a/two", {"mode": stat.S_IFDIR | 0o755}, IN_A),
    "pack outside": Hostile("a/two", {"pack": 2}, ("a/two",)),
    "pack far outside": Hostile("a/two", {"pack": (1 << 32) - 1}, ("a/two",)),
    "codec unknown": Hostile("blocks", {"codec": 4}, ("blocks",)),
    "codec far outside": Hostile("blocks", {"codec": 255}, ("blocks",)),
    "another codec": Hostile("blocks", {"codec": 3}, ("blocks",)),
    "stored as it is": Hostile("blocks", {"codec": 0}, ("blocks",)),
    "offset outside": Hostile("large", {"offset": 1 << 40}, ("large", "again")),
    "offset overflows": Hostile("large", {"offset": HUGE - 4095}, ("large", "again")),
    "stored size overflows": Hostile("large", {"stored_size": HUGE}, ("large", "again")),
    "size overflows": Hostile(
        "large", {"stored_size": HUGE, "logical_size": HUGE}, ("large", "again")
    ),
    "size too large": Hostile("blocks", {"logical_size": 1 << 50}, ("blocks",)),
    "size too small": Hostile("blocks", {"logical_size": 10}, ("blocks",)),
    "stored size too small": Hostile("blocks", {"stored_size": 3}, ("blocks",)),
    "stored size none": Hostile("blocks", {"stored_size": 0}, ("blocks",)),
    "target outside": Hostile("link", {"offset": 1 << 40}, ("link",)),
    "target too long": Hostile("link", {"logical_size": 1 << 40}, ("link",)),
    "target empty": Hostile("link", {"logical_size": 0}, ("link",)),
    "checksum": Hostile("large", {"checksum": 1}, ("large", "again")),
}


def make_hostile(data: Path, hostile: Hostile) -> None:
    values = dict(hostile.values)
    if values.get("parent") == 1 << 31:
        values["parent"] = find(data, hostile.name)
    edit(data, hostile.name, **values)


@pytest.mark.parametrize("name", HOSTILE)
def test_tools_refuse_hostile_records(data: Path, tmp_path: Path, name: str) -> None:
    make_hostile(data, HOSTILE[name])
    done = call("verify", data, code=DAMAGED)
    assert "records[" in done.stdout.decode() or "damaged: " in done.stdout.decode()
    call("info", data)
    for arguments in (("ls", "-l", "-R", data), ("extract", data, tmp_path / "out")):
        done = call(*arguments, code=None)
        assert done.code in (0, DAMAGED)
        assert done.code == 0 or done.stderr.startswith("fanstore: error: ")
    assert not list(tmp_path.glob(".out*"))


LOOK = """
import os, sys
root, found = sys.argv[1], {}
names = sys.argv[2].split(",")
for folder, folders, files in os.walk(root, followlinks=False):
    assert folder.count("/") < 60, "a directory has no end"
for name in names:
    path = os.path.join(root, name)
    try:
        os.lstat(path)
        if os.path.isdir(path):
            for below in os.listdir(path):
                try:
                    os.lstat(os.path.join(path, below))
                except OSError as error:
                    pass
            found[name] = "directory"
        else:
            with open(path, "rb") as file:
                found[name] = str(len(file.read()))
    except OSError as error:
        found[name] = "E%d" % error.errno
for name, what in found.items():
    print(name, what)
"""
NAMES = ("a", "a/one", "a/two", "again", "b", "b/deep", "b/deep/three", "blocks", "c", "c/four",
         "large", "link")  # fmt: skip


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@pytest.fixture(scope="module")
def expected(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the sound dataset shows through its mount."""
    return looks(make_stage(tmp_path_factory.mktemp("stage")), sound)


def looks(stage: Stage, data: Path) -> dict[str, str]:
    argv = (sys.executable, "-c", LOOK, str(stage.mount), ",".join(NAMES))
    done = stage.run(data, *argv, options=("--in-place",))
    return dict(line.split() for line in done.stdout.splitlines())


def groups() -> list[list[str]]:
    """The hostile records in groups that do not touch the same files: one job for each."""
    found: list[tuple[set[str], list[str]]] = []
    for name, hostile in HOSTILE.items():
        touched = {hostile.name, *hostile.files}
        for files, names in found:
            if not files & touched:
                files |= touched
                names.append(name)
                break
        else:
            found.append((touched, [name]))
    return [names for _, names in found]


@pytest.mark.parametrize("names", one_of(2, groups()), ids=", ".join)
def test_programs_see_errors_for_hostile_records(
    data: Path, stage: Stage, expected: dict[str, str], names: list[str]
) -> None:
    for name in names:
        make_hostile(data, HOSTILE[name])
    found = looks(stage, data)
    may_fail = {file for name in names for file in HOSTILE[name].files}
    others = {k: v for k, v in expected.items() if k not in may_fail}
    assert {k: found.get(k) for k in others} == others
    assert len(found) == len(NAMES)


RunDamage = Callable[[Path], None]
RUN_DAMAGE: dict[str, tuple[str, RunDamage]] = {
    "index header": ("header.version", lambda d: flip(d / "index.fsi", at_of(HEADER, "version"))),
    "index body": ("header.body_checksum", lambda d: flip(d / "index.fsi", 700)),
    "index cut": (
        "header.file_bytes",
        lambda d: (d / "index.fsi").write_bytes((d / "index.fsi").read_bytes()[:-9]) and None,
    ),
    "pack header": ("header.checksum", lambda d: flip(d / "pack-00001.fsp", 24)),
    "pack trailer": (
        "trailer.magic",
        lambda d: flip(d / "pack-00001.fsp", (d / "pack-00001.fsp").stat().st_size - 64),
    ),
}


@pytest.mark.parametrize("part", RUN_DAMAGE)
def test_run_refuses_a_damaged_dataset(data: Path, stage: Stage, part: str) -> None:
    field, damage = RUN_DAMAGE[part]
    damage(data)
    done = stage.run(data, "true", code=DAMAGED)
    assert f": {field} at offset " in done.stderr
    assert stage.leftovers() == []


def test_a_zstd_frame_that_asks_for_much_memory_is_damaged() -> None:
    whole = zstandard.ZstdCompressor().compress(bytes(1 << 20))
    assert decode_block(3, whole, 1 << 20) == bytes(1 << 20)
    # Magic, a descriptor for eight bytes of content size, the window, the size, an empty block.
    frame = bytes.fromhex("28b52ffd c0 58") + (1 << 50).to_bytes(8, "little") + b"\1\0\0"
    assert zstandard.frame_content_size(frame) == 1 << 50
    with pytest.raises(ContentDamaged):
        decode_block(3, frame, 1 << 20)


def test_damaged_content_is_named_and_gives_eio(data: Path, sound: Path, stage: Stage) -> None:
    content = (sound.parent / "source" / "c" / "four").read_bytes()
    pack, at = find_content(data, content)
    flip(pack, at + 700)
    done = call("verify", data, code=DAMAGED)
    assert done.stdout.decode().splitlines() == ["damaged: c/four"]
    script = f"cat {stage.mount}/a/one | wc -c; cat {stage.mount}/c/four"
    ran = stage.run(data, "sh", "-c", script, code=1)
    assert ran.stdout == "1500\n"
    assert "c/four: Input/output error" in ran.stderr
    assert re.search(r"damaged: .*c/four", ran.stderr)
    assert "1 damaged file" in ran.stderr
