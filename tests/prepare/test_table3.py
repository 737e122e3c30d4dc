"""Partitions in the Table 3 layout: round trips, a file built by hand, damage."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from pathlib import Path

import pytest

from fanstore.cli import main
from fanstore.dataset import open_dataset

HEADER_BYTES = 408
MTIME_NS = 1_600_000_000_123_456_789


def fanstore(*arguments: object, code: int = 0) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert end.value.code in ((0, None) if code == 0 else (code,))


def by_hand(name: bytes, data: bytes, mode: int = 0o100640, size: int | None = None) -> bytes:
    """One file of a partition, written field by field as the paper has it."""
    seconds, nanoseconds = divmod(MTIME_NS, 10**9)
    st = struct.pack("<QQQ", 0, 2, 1)
    st += struct.pack("<IIII", mode, 1000, 100, 0)
    st += struct.pack("<Qqqq", 0, len(data) if size is None else size, 4096, 1)
    st += struct.pack("<qq", seconds, nanoseconds) * 3
    st += bytes(24)
    assert len(st) == 144
    return name.ljust(256, b"\0") + st + struct.pack("<Q", 0) + data


def partition(*files: bytes) -> bytes:
    return struct.pack("<I", len(files)) + b"".join(files)


def tree(path: Path) -> Path:
    (path / "train" / "cats").mkdir(parents=True)
    (path / "train" / "cats" / "1.jpg").write_bytes(os.urandom(70_000))
    (path / "train" / "large").write_bytes(os.urandom(5_000_001))
    (path / "empty").write_bytes(b"")
    (path / "n").with_name("n" * 255).write_bytes(b"a name as long as fits")
    os.link(path / "empty", path / "empty too")
    for folder, _, files in os.walk(path):
        for name in files:
            os.chmod(Path(folder) / name, 0o640)
            os.utime(Path(folder) / name, ns=(MTIME_NS, MTIME_NS))
    return path


@pytest.mark.parametrize("codec", ["store", "zstd"])
def test_round_trip(tmp_path: Path, codec: str) -> None:
    source = tree(tmp_path / "source")
    fanstore("prepare", "--quiet", "--partitions", 3, "--codec", codec, source, tmp_path / "made")
    fanstore("dataset", "export-table3", tmp_path / "made", tmp_path / "out")
    parts = sorted((tmp_path / "out").iterdir())
    assert [part.name for part in parts] == [f"partition-0000{n}.table3" for n in range(3)]
    fanstore("dataset", "import-table3", "--quiet", *parts, tmp_path / "again")
    fanstore("verify", "--quiet", tmp_path / "again")
    fanstore("extract", "--quiet", tmp_path / "again", tmp_path / "back")
    assert subprocess.run(["diff", "-r", source, tmp_path / "back"]).returncode == 0
    for folder, _, files in os.walk(source):
        for name in files:
            before = (Path(folder) / name).stat()
            after = (tmp_path / "back" / Path(folder).relative_to(source) / name).stat()
            facts = [(s.st_mode, s.st_mtime_ns, s.st_uid, s.st_gid) for s in (before, after)]
            assert facts[0] == facts[1], name


def test_export_has_the_bytes_of_the_layout(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "b").write_bytes(b"content")
    os.chmod(tmp_path / "source" / "b", 0o640)
    os.utime(tmp_path / "source" / "b", ns=(MTIME_NS, MTIME_NS))
    fanstore("prepare", "--quiet", tmp_path / "source", tmp_path / "made")
    fanstore("dataset", "export-table3", "--quiet", tmp_path / "made", tmp_path / "out")
    found = bytearray((tmp_path / "out" / "partition-00000.table3").read_bytes())
    found_ids = struct.unpack_from("<II", found, 4 + 256 + 28)
    assert found_ids == (os.getuid(), os.getgid())
    struct.pack_into("<II", found, 4 + 256 + 28, 1000, 100)
    struct.pack_into("<Q", found, 4 + 256 + 8, 2)  # the inode number is free
    assert found == partition(by_hand(b"b", b"content"))


def test_import_of_a_file_built_by_hand(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(
        partition(by_hand(b"a/b", b"one"), by_hand(b"./a//c", b"two"), by_hand(b"z\xff", b""))
    )
    fanstore("dataset", "import-table3", "--quiet", tmp_path / "p", tmp_path / "made")
    with open_dataset(tmp_path / "made", verify=True) as dataset:
        paths = [dataset.relpath(record) for record in range(len(dataset.records))]
        assert paths == [b"", b"a", b"z\xff", b"a/b", b"a/c"]
        assert dataset.records["mode"].tolist() == [0o40755, 0o40755, *[0o100640] * 3]
        assert set(dataset.records["mtime_ns"].tolist()) == {MTIME_NS}
        assert dataset.owner(3) == (1000, 100)


BAD = {
    "empty file": (b"", "count at offset 0: truncated"),
    "count": (struct.pack("<I", 9) + by_hand(b"a", b""), "count at offset 0"),
    "huge count": (b"\xff" * 4, "count at offset 0"),
    "bytes behind": (partition(by_hand(b"a", b"x")) + b"y", "count at offset 413"),
    "absolute": (partition(by_hand(b"/etc/x", b"")), r"files\[0\].name at offset 4"),
    "dots": (partition(by_hand(b"a/../../x", b"")), r"files\[0\].name at offset 4"),
    "only dots": (partition(by_hand(b"./.", b"")), r"files\[0\].name at offset 4"),
    "no name": (partition(by_hand(b"", b"")), r"files\[0\].name at offset 4"),
    "no NUL": (partition(by_hand(b"n" * 256, b"")), r"files\[0\].name at offset 4"),
    "twice": (partition(*[by_hand(b"a", b"x")] * 2), r"files\[1\].name at offset 413"),
    "below a file": (
        partition(by_hand(b"a", b""), by_hand(b"a/b", b"")), r"files\[1\].name at offset 412",
    ),
    "a file for a directory": (
        partition(by_hand(b"a/b", b""), by_hand(b"a", b"")), r"files\[1\].name at offset 412",
    ),
    "a directory": (
        partition(by_hand(b"a", b"", 0o40755)), r"files\[0\].stat.st_mode at offset 284",
    ),
    "negative size": (
        partition(by_hand(b"a", b"", size=-1)), r"files\[0\].stat.st_size at offset 308",
    ),
    "short data": (partition(by_hand(b"a", b"x", size=2)), r"files\[0\].data at offset 412"),
    "huge data": (partition(by_hand(b"a", b"x", size=2**63 - 1)), r"files\[0\].data"),
    "short header": (
        partition(by_hand(b"a", b"x" * 300, size=0), by_hand(b"b", b"")[:108]),
        r"files\[1\]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_damage_is_refused_with_file_field_and_offset(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data, where = BAD[kind]
    (tmp_path / "p").write_bytes(data)
    fanstore("dataset", "import-table3", tmp_path / "p", tmp_path / "made", code=3)
    message = capsys.readouterr().err
    assert str(tmp_path / "p") in message
    assert re.search(where, message), message
    assert os.listdir(tmp_path) == ["p"]


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = partition(by_hand(b"a", b"content"), by_hand(b"b", b"more"))
    for length in (0, 3, 4, 5, 260, 284, 404, 411, 412, 418, 419, 420, 500, len(whole) - 1):
        (tmp_path / "p").write_bytes(whole[:length])
        fanstore("dataset", "import-table3", "--quiet", tmp_path / "p", tmp_path / "made", code=3)


def test_compressed_partitions_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(partition(by_hand(b"a", b"content")))
    struct.pack_into("<Q", data, 4 + 400, 5)
    (tmp_path / "p").write_bytes(data)
    fanstore("dataset", "import-table3", tmp_path / "p", tmp_path / "made", code=2)
    message = capsys.readouterr().err
    assert "compressed_size at offset 404" in message
    assert "LZSSE8" in message
    assert not (tmp_path / "made").exists()


def test_export_names_what_has_no_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tree(tmp_path / "source")
    (source / "link").symlink_to("empty")
    (source / "void").mkdir()
    fanstore("prepare", "--quiet", source, tmp_path / "made")
    capsys.readouterr()
    fanstore("dataset", "export-table3", "--quiet", tmp_path / "made", tmp_path / "out")
    assert capsys.readouterr().err.splitlines() == [
        "fanstore: left out: link: is a symbolic link",
        "fanstore: left out: void: is an empty directory",
    ]


def test_export_refuses_long_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tree(tmp_path / "source")
    long = source / "train" / ("l" * 250)
    long.write_bytes(b"")
    fanstore("prepare", "--quiet", source, tmp_path / "made")
    fanstore("dataset", "export-table3", tmp_path / "made", tmp_path / "out", code=2)
    assert "train/" + "l" * 250 in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_destinations_are_protected(tmp_path: Path) -> None:
    source = tree(tmp_path / "source")
    fanstore("prepare", "--quiet", source, tmp_path / "made")
    fanstore("dataset", "export-table3", "--quiet", tmp_path / "made", tmp_path / "out")
    fanstore("dataset", "export-table3", "--quiet", tmp_path / "made", tmp_path / "out", code=2)
    fanstore("dataset", "export-table3", "--quiet", "--force", tmp_path / "made", tmp_path / "out")
    fanstore("dataset", "export-table3", "--quiet", "--force", tmp_path / "made", source, code=2)
    fanstore(
        "dataset",
        "export-table3",
        "--quiet",
        "--force",
        tmp_path / "made",
        tmp_path / "made",
        code=2,
    )
    part = tmp_path / "out" / "partition-00000.table3"
    fanstore("dataset", "import-table3", "--quiet", part, tmp_path / "made", code=2)
    fanstore("dataset", "import-table3", "--quiet", "--force", part, tmp_path / "made")
    fanstore("dataset", "import-table3", "--quiet", "--force", part, tmp_path / "out", code=2)
    assert sorted(os.listdir(tmp_path)) == ["made", "out", "source"]


def test_damaged_content_ends_an_export(tmp_path: Path) -> None:
    source = tree(tmp_path / "source")
    fanstore("prepare", "--quiet", source, tmp_path / "made")
    with (tmp_path / "made" / "pack-00000.fsp").open("r+b") as pack:
        pack.seek(20_000)
        pack.write(b"damaged")
    fanstore("dataset", "export-table3", "--quiet", tmp_path / "made", tmp_path / "out", code=3)
    assert sorted(os.listdir(tmp_path)) == ["made", "source"]
