"""prepare: whatever lies in a directory, a list or an archive comes back from the dataset."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tqdm  # noqa: F401
import zstandard
from inprocess import call
from small_disk import small_disk
from soak import combined, sampled
from trees import Facts, make_deep_tree, make_odd_tree, snapshot

import fanstore.cli.datasets.extract
import fanstore.cli.datasets.prepare
import fanstore.extract  # noqa: F401  # imported while we may, like these
from fanstore.dataset import open_dataset
from fanstore.errors import SourceProblems
from fanstore.prepare import run as preparing
from fanstore.prepare.codecs import parse_codec
from fanstore.prepare.plan import default_partitions
from fanstore.prepare.run import PrepareOptions

LIMIT_S = 60.0
NOBODY = 65534
FANSTORE = (
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from fanstore.cli import main; main()",
)


def noise(count: int, seed: int) -> bytes:
    """Bytes that no codec shrinks."""
    return random.Random(seed).randbytes(count)


def make_large(root: Path) -> None:
    """Files of several units: that compress, that do not, that do in part."""
    root.mkdir()
    text = b"".join(b"row %d of many\n" % i for i in range(420_000))
    (root / "text").write_bytes(text)
    (root / "noise").write_bytes(noise((5 << 20) + 3, 1))
    (root / "mixed").write_bytes(noise(1 << 20, 2) + bytes(3 << 20) + noise(1 << 19, 3) + b"end")
    (root / "unit").write_bytes(b"u" * (4 << 20))
    with open(root / "hole", "wb") as file:
        file.truncate(9 << 20)


@pytest.fixture(scope="module")
def source() -> Iterator[Path]:
    """Every kind of thing that can be packed."""
    with tempfile.TemporaryDirectory(prefix="fanstore-test-") as folder:
        root = Path(folder) / "source"
        make_odd_tree(root)
        make_deep_tree(root / "deep")
        make_large(root / "large")
        yield root


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A few files in two directories."""
    root = tmp_path / "small"
    for name in ("a/one", "a/two", "b/three"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode() * 1000)
    (root / "a" / "link").symlink_to("one")
    return root


def names_of(dataset: Path) -> list[bytes]:
    return sorted(call("ls", "-R", "-0", dataset).stdout.split(b"\0")[:-1])


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def difference(one: Path, other: Path) -> dict[bytes, tuple[Facts | None, Facts | None]]:
    """The paths where two trees differ, and how."""
    left, right = snapshot(one), snapshot(other)
    both = {path: (left.get(path), right.get(path)) for path in left.keys() | right.keys()}
    return {path: facts for path, facts in both.items() if facts[0] != facts[1]}


def nothing_left(directory: Path, *expected: str) -> None:
    assert sorted(p.name for p in directory.iterdir()) == sorted(expected)


@pytest.mark.parametrize(
    "codec", sampled(["store", "lz4", "lz4hc", "zstd:3", "auto"], ["store", "auto"])
)
def test_what_is_packed_comes_back(source: Path, tmp_path: Path, codec: str) -> None:
    dataset, back = tmp_path / "data", tmp_path / "back"
    call("prepare", source, dataset, "--codec", codec, "--partitions", "3", "--quiet")
    call("verify", dataset, "--quiet")
    call("extract", dataset, back, "--quiet")
    assert difference(source, back) == {}
    used = json.loads(call("info", "--json", dataset).stdout)["files_by_codec"]
    if codec not in ("store", "auto"):
        assert used[codec.partition(":")[0]] > 0
    assert (used["store"] == sum(used.values())) == (codec == "store")


@pytest.mark.parametrize("codec", ["store", "zstd:3"])
def test_the_number_of_jobs_changes_no_byte(source: Path, tmp_path: Path, codec: str) -> None:
    for jobs in ("1", "4"):
        call("prepare", source, tmp_path / jobs, "--codec", codec, "--jobs", jobs, "--quiet")
    assert files_of(tmp_path / "1") == files_of(tmp_path / "4")


def test_a_dataset_is_not_packed_again(small: Path, tmp_path: Path) -> None:
    call("prepare", small, tmp_path / "data")
    done = call("prepare", tmp_path / "data", tmp_path / "again", code=2)
    assert "data: a dataset already: `fanstore run` serves it" in done.stderr
    assert not (tmp_path / "again").exists()


def test_an_empty_directory_can_be_packed(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    call("prepare", tmp_path / "empty", tmp_path / "data")
    call("verify", tmp_path / "data")
    call("extract", tmp_path / "data", tmp_path / "back")
    assert difference(tmp_path / "empty", tmp_path / "back") == {}


@pytest.mark.parametrize("separator", [b"\0", b"\n"])
def test_a_list_names_what_is_packed(small: Path, tmp_path: Path, separator: bytes) -> None:
    listed = tmp_path / "list"
    listed.write_bytes(separator.join([b"a/two", b"./b//three", b"a/link"]) + separator)
    call("prepare", small, tmp_path / "data", "--files-from", listed)
    assert names_of(tmp_path / "data") == [b"a", b"a/link", b"a/two", b"b", b"b/three"]


def test_a_list_can_come_from_stdin(small: Path, tmp_path: Path) -> None:
    (small / "new\nline").write_bytes(b"x")
    argv = [*FANSTORE, "prepare", str(small), str(tmp_path / "data"), "--files-from", "-"]
    subprocess.run(argv, input=b"new\nline\0b\0", check=True, timeout=LIMIT_S)
    assert names_of(tmp_path / "data") == [b"b", b"new\nline"]


def test_with_a_list_the_dataset_may_lie_in_its_source(small: Path, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("a/one\nb/three\n")
    done = call("prepare", small, small / "data", "--files-from", tmp_path / "list")
    assert b" 2 files, " in done.stdout
    assert names_of(small / "data") == [b"a", b"a/one", b"b", b"b/three"]
    nothing_left(small, "a", "b", "data")
    again = call("prepare", small, small, "--force", "--files-from", tmp_path / "list", code=2)
    assert "lies inside the source" in again.stderr
    (tmp_path / "list").write_text("a/one\n")
    assert (
        b" 1 file, "
        in call(
            "prepare", small, small / "data", "--force", "--files-from", tmp_path / "list"
        ).stdout
    )


def test_a_list_with_wrong_names_is_refused_whole(small: Path, tmp_path: Path) -> None:
    listed = tmp_path / "list"
    listed.write_text("a/one\nno/such\n../up\n/etc/passwd\na/one/below\n")
    done = call("prepare", small, tmp_path / "data", "--files-from", listed, code=125)
    for name in ("no/such", "../up", "/etc/passwd", "a/one/below"):
        assert f"\n  {name}: " in done.stderr
    nothing_left(tmp_path, "list", "small")


def exact_time(source: Path) -> Callable[[tarfile.TarInfo], tarfile.TarInfo]:
    """Gives members their times to the nanosecond, as GNU tar does."""

    def exact(member: tarfile.TarInfo) -> tarfile.TarInfo:
        time_ns = os.lstat(source / member.name).st_mtime_ns
        sign, rest = "-" if time_ns < 0 else "", abs(time_ns)
        member.pax_headers["mtime"] = f"{sign}{rest // 10**9}.{rest % 10**9:09}"
        return member

    return exact


def archive_of(source: Path, kind: str, path: Path) -> None:
    if kind == "tar.zst":
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            archive.add(source, ".", filter=exact_time(source))
        path.write_bytes(zstandard.ZstdCompressor().compress(packed.getvalue()))
        return
    with tarfile.open(
        path, "w:gz" if kind == "tar.gz" else "w", format=tarfile.PAX_FORMAT
    ) as archive:
        archive.add(source, ".", filter=exact_time(source))


@pytest.mark.parametrize("kind", sampled(["tar", "tar.gz", "tar.zst"], ["tar.gz"]))
def test_an_archive_is_packed_like_the_directory(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "source"
    make_odd_tree(source)
    make_large(source / "large")
    archive_of(source, kind, tmp_path / f"a.{kind}")
    call("prepare", tmp_path / f"a.{kind}", tmp_path / "data", "--codec", "lz4", "--jobs", "3")
    call("extract", tmp_path / "data", tmp_path / "back")
    assert difference(source, tmp_path / "back") == {}


@pytest.mark.parametrize("name", ["../up", "a/../../up"])
def test_an_archive_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("good"))
        archive.addfile(tarfile.TarInfo(name))
    done = call("prepare", tmp_path / "bad.tar", tmp_path / "data", code=125)
    assert f"{name}: leads out of the archive" in done.stderr
    nothing_left(tmp_path, "bad.tar")


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    make_odd_tree(tmp_path / "source")
    archive_of(tmp_path / "source", "tar.gz", tmp_path / "a.tar.gz")
    whole = (tmp_path / "a.tar.gz").read_bytes()
    (tmp_path / "a.tar.gz").write_bytes(whole[: len(whole) // 2])
    call("prepare", tmp_path / "a.tar.gz", tmp_path / "data", code=2)
    (tmp_path / "a.tar.gz").write_bytes(noise(5000, 5))
    call("prepare", tmp_path / "a.tar.gz", tmp_path / "data", code=2)
    nothing_left(tmp_path, "a.tar.gz", "source")


def test_a_pack_for_so_many_bytes_but_none_without_files() -> None:
    assert default_partitions(2, 40 << 30) == 2
    assert default_partitions(0, 0) == 1
    assert default_partitions(1000, 1000 << 20) == 16  # a share for each of several ranks
    assert default_partitions(1000, 9 << 20) == 2
    assert default_partitions(1000, 1000 << 20, is_new=False) == 4
    assert default_partitions(1000, 10 << 30) == 40


def test_partitions_are_balanced(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for i in range(400):
        (tmp_path / "source" / f"{i}").write_bytes(bytes(random.Random(i).randrange(1, 20_000)))
    call("prepare", tmp_path / "source", tmp_path / "data", "--partitions", "5")
    sizes = [pack.stat().st_size for pack in (tmp_path / "data").glob("pack-*.fsp")]
    assert len(sizes) == 5
    assert max(sizes) < 1.1 * min(sizes)


def test_replicated_files_go_to_packs_for_every_node(small: Path, tmp_path: Path) -> None:
    call("prepare", small, tmp_path / "data", "--replicate", "b", "--partitions", "2")
    with open_dataset(tmp_path / "data", verify=True) as dataset:
        flags = [dataset.pack_info(pack).everywhere for pack in range(dataset.pack_count)]
        assert flags == [False, False, True]
        packs = {
            name: int(dataset.records[dataset.lookup(name)]["pack"])
            for name in (b"a/one", b"a/two", b"b/three")
        }
    assert packs == {b"a/one": 0, b"a/two": 1, b"b/three": 2}


def test_a_glob_that_matches_nothing_is_refused(small: Path, tmp_path: Path) -> None:
    done = call("prepare", small, tmp_path / "data", "--replicate", "nothing-*", code=2)
    assert "nothing-*" in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("codec", ["store", "lz4", "zstd"])
def test_files_above_the_block_size(tmp_path: Path, codec: str) -> None:
    make_large(tmp_path / "source")
    options = ("--codec", codec, "--block-size", "4K")
    call("prepare", tmp_path / "source", tmp_path / "data", *options)
    assert json.loads(call("info", "--json", tmp_path / "data").stdout)["block_bytes"] == 4096
    call("extract", tmp_path / "data", tmp_path / "back")
    assert difference(tmp_path / "source", tmp_path / "back") == {}


def test_only_force_replaces_and_only_datasets(small: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    call("prepare", small, data)
    before = files_of(data)
    done = call("prepare", small, data, "--codec", "lz4", code=2)
    assert "exists already" in done.stderr
    assert files_of(data) == before
    call("prepare", small, data, "--codec", "lz4", "--force")
    assert files_of(data) != before
    call("verify", data)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_bytes(b"mine")
    done = call("prepare", small, tmp_path / "precious", "--force", code=2)
    assert "is not replaced" in done.stderr
    assert files_of(tmp_path / "precious") == {"file": b"mine"}
    nothing_left(tmp_path, "data", "precious", "small")


def test_the_dataset_cannot_lie_in_its_source(small: Path, tmp_path: Path) -> None:
    for place in (small / "data", small / "a" / "data", tmp_path / "small" / ".." / "small"):
        done = call("prepare", small, place, "--force", code=2)
        assert done.stderr.count("\n") == 1
    call("prepare", tmp_path / "none", tmp_path / "data", code=2)
    (tmp_path / "alias").symlink_to(small)
    call("prepare", small, tmp_path / "alias" / "data", code=2)
    nothing_left(small, "a", "b")


def add_what_cannot_be_packed(root: Path) -> None:
    os.mkfifo(root / "a" / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(root / "b" / "socket"))


def test_what_cannot_be_packed_is_named_at_once(small: Path, tmp_path: Path) -> None:
    add_what_cannot_be_packed(small)
    done = call("prepare", small, tmp_path / "data", code=125)
    assert "a/fifo: is a fifo" in done.stderr
    assert "b/socket: is a socket" in done.stderr
    nothing_left(tmp_path, "small")


def test_skip_unreadable_leaves_them_out(small: Path, tmp_path: Path) -> None:
    add_what_cannot_be_packed(small)
    done = call("prepare", small, tmp_path / "data", "--skip-unreadable", "--json")
    left_out = json.loads(done.stdout)["left_out"]
    assert sorted((one["path"], one["reason"]) for one in left_out) == [
        ("a/fifo", "is a fifo"),
        ("b/socket", "is a socket"),
    ]
    assert b"a/fifo" not in names_of(tmp_path / "data")
    call("verify", tmp_path / "data")


def test_a_time_that_cannot_be_stored_is_named(small: Path, tmp_path: Path) -> None:
    os.utime(small / "a" / "one", (10**10, 10**10))
    if os.stat(small / "a" / "one").st_mtime != 10**10:
        pytest.skip("this file system has no such times")
    done = call("prepare", small, tmp_path / "data", code=125)
    assert "a/one: Value too large" in done.stderr


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Another user for a while."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_what_may_not_be_read() -> None:
    """As nobody: an unreadable file and an unreadable directory, both named; or both left out."""
    with tempfile.TemporaryDirectory(prefix="fanstore-test-", dir="/tmp") as folder:
        base = Path(folder)
        (base / "source" / "shut").mkdir(parents=True)
        (base / "source" / "shut" / "inner").write_bytes(b"x")
        (base / "source" / "shut").chmod(0)
        (base / "source" / "secret").write_bytes(b"x")
        (base / "source" / "secret").chmod(0o600)
        (base / "source" / "open").write_bytes(b"x")
        base.chmod(0o777)
        with as_nobody():
            done = call("prepare", base / "source", base / "data", code=125)
            assert "secret: Permission denied" in done.stderr
            assert "shut: Permission denied" in done.stderr
            nothing_left(base, "source")
            call("prepare", base / "source", base / "data", "--skip-unreadable")
        assert names_of(base / "data") == [b"open"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_directories_that_are_closed_to_their_owner_are_unpacked_and_replaced() -> None:
    with tempfile.TemporaryDirectory(prefix="fanstore-test-", dir="/tmp") as folder:
        base = Path(folder)
        base.chmod(0o777)
        with as_nobody():
            (base / "source" / "a" / "b" / "c").mkdir(parents=True)
            (base / "source" / "a" / "b" / "file").write_bytes(b"x")
            for name in ("a/b/c", "a/b", "a", "."):
                (base / "source" / name).chmod(0o500)
            call("prepare", base / "source", base / "data")
            call("extract", base / "data", base / "back")
            assert difference(base / "source", base / "back") == {}
            call("extract", "--force", base / "data", base / "back")
            assert difference(base / "source", base / "back") == {}
            nothing_left(base, "back", "data", "source")


@pytest.mark.parametrize("size, change", combined([100, 9 << 20], ["content", "shorter", "gone"]))
def test_a_file_that_changes_is_reported(tmp_path: Path, size: int, change: str) -> None:
    root = tmp_path / "source"
    root.mkdir()
    (root / "same").write_bytes(b"s" * 100)
    (root / "moving").write_bytes(b"m" * size)

    def scan_and_change(scratch: Path) -> tuple[preparing.Source, list[tuple[bytes, str]]]:
        opened = preparing.open_source(root, PrepareOptions(), scratch)
        if change == "gone":
            (root / "moving").unlink()
        else:
            (root / "moving").write_bytes(b"n" * (size if change == "content" else size - 50))
        return opened

    with pytest.raises(SourceProblems) as error:
        preparing.prepare_from(scan_and_change, [root], tmp_path / "data", PrepareOptions())
    assert [path for path, _ in error.value.problems] == [b"moving"]
    nothing_left(tmp_path, "source")

    (root / "moving").write_bytes(b"m" * size)
    options = PrepareOptions(codec=parse_codec("lz4"), skip_unreadable=True)
    summary = preparing.prepare_from(scan_and_change, [root], tmp_path / "data", options)
    assert [path for path, _ in summary.left_out] == [b"moving"]
    assert names_of(tmp_path / "data") == [b"same"]
    call("verify", tmp_path / "data")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What takes long to compress."""
    root = tmp_path_factory.mktemp("slow")
    block = b"".join(b"%d;" % random.Random(i).getrandbits(20) for i in range(60_000))
    for i in range(120):
        (root / f"{i}").write_bytes(block[i * 100 :] + block[: i * 100])
    return root


@pytest.mark.parametrize(
    "number, replace", combined([signal.SIGINT, signal.SIGTERM, signal.SIGKILL], [False, True])
)
def test_an_end_in_the_middle_leaves_nothing(
    slow: Path, tmp_path: Path, number: signal.Signals, replace: bool
) -> None:
    data = tmp_path / "data"
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_bytes(b"old")
    force = []
    if replace:
        call("prepare", tmp_path / "old", data)
        force = ["--force"]
    options = ["--codec", "zstd:19", "--jobs", "1", *force]
    with subprocess.Popen(
        [*FANSTORE, "prepare", str(slow), str(data), *options], stderr=subprocess.PIPE
    ) as process:
        try:
            deadline_s = time.monotonic() + LIMIT_S
            while not list(tmp_path.glob(".fanstore-prepare-*/made/pack-*")):
                assert time.monotonic() < deadline_s and process.poll() is None
                time.sleep(0.01)
            process.send_signal(number)
            code = process.wait(LIMIT_S)
        finally:
            process.kill()
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    there = ["data", "old"] if replace else ["old"]
    if replace:
        assert names_of(data) == [b"file"]
    if number == signal.SIGKILL:
        assert list(tmp_path.glob(".fanstore-prepare-*"))
        call("prepare", tmp_path / "old", data, *force)
        there = ["data", "old"]
    nothing_left(tmp_path, *there)


@pytest.mark.parametrize(("first", "replace"), [(signal.SIGINT, False), (signal.SIGTERM, True)])
def test_any_number_of_signals_leaves_nothing(
    slow: Path, tmp_path: Path, first: signal.Signals, replace: bool
) -> None:
    data = tmp_path / "data"
    force = ["--force"] * replace
    if replace:
        (tmp_path / "old").mkdir()
        call("prepare", tmp_path / "old", data)
        (tmp_path / "old").rmdir()
    argv = [*FANSTORE, "prepare", str(slow), str(data), "--codec", "zstd:15", *force]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline_s = time.monotonic() + LIMIT_S
            while not list(tmp_path.glob(".fanstore-prepare-*/made/pack-*")):
                assert time.monotonic() < deadline_s and process.poll() is None
                time.sleep(0.01)
            made = next(tmp_path.glob(".fanstore-prepare-*"))
            process.send_signal(first)
            others = itertools.cycle([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
            while made.exists() and process.poll() is None:  # all through the cleaning up
                assert time.monotonic() < deadline_s
                process.send_signal(next(others))
                time.sleep(0.001)
            told = process.communicate(timeout=LIMIT_S)[1]
        finally:
            process.kill()
    nothing_left(tmp_path, *["data"] * replace)
    assert process.returncode in (130, 143, 129)
    state = "is as it was" if replace else "was not made"
    assert re.search(rf"ended by SIG\w+: {data} {state}, and nothing is left behind\n", told)
    assert "Traceback" not in told


def test_the_summary_as_json(small: Path, tmp_path: Path) -> None:
    found = json.loads(call("prepare", small, tmp_path / "data", "--json").stdout)
    counted = {k: found[k] for k in ("files", "directories", "symbolic_links", "left_out")}
    assert counted == {"files": 3, "directories": 3, "symbolic_links": 1, "left_out": []}
    assert found["logical_bytes"] == sum(map(len, ("a/one", "a/two", "b/three"))) * 1000
    with open_dataset(tmp_path / "data") as dataset:
        assert found["dataset_id"] == dataset.dataset_id
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert manifest["dataset_id"] == found["dataset_id"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("{small}", "{tmp}/data", "--codec", "brotli"),
        ("{small}", "{tmp}/data", "--codec", "zstd:99"),
        ("{small}", "{tmp}/data", "--codec", "lz4:3"),
        ("{small}", "{tmp}/no/such/data"),
        ("{small}", "{small}/a/one/data"),
        ("{small}/a/one", "{tmp}/data", "--files-from", "{small}/a/one"),
        ("{small}", "{tmp}/data", "--files-from", "{tmp}/none"),
    ],
)
def test_mistakes_are_told_in_one_line(
    small: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    filled = [word.format(small=small, tmp=tmp_path) for word in arguments]
    done = call("prepare", *filled, code=2)
    assert done.stderr.startswith("fanstore: error: ")
    assert done.stderr.count("\n") == 1
    nothing_left(tmp_path, "small")


@pytest.mark.parametrize(
    "options",
    [("--block-size", "5000"), ("--block-size", "2G"), ("--jobs", "0"), ("--partitions", "0"),
     ("--no-such-option",), ("further-argument",)],
)  # fmt: skip
def test_options_out_of_range_are_refused(
    small: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = call("prepare", small, tmp_path / "data", *options, code=2)
    assert "rror: " in done.stderr
    nothing_left(tmp_path, "small")


def test_a_full_disk_is_named_with_the_room_it_takes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in "abcd":
        (source / name).write_bytes(os.urandom(1 << 20))
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, "2m"):
        said = call("prepare", source, disk / "data", code=125).stderr
        assert "No space left on device: the source has 4.0 MiB in its files, and 2.0 MiB" in said
        assert os.listdir(disk) == []


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    (shut / "photos").mkdir(parents=True)
    shut.chmod(0o500)
    done = subprocess.run([*FANSTORE, "prepare", shut / "photos"], capture_output=True, text=True)
    shut.chmod(0o700)
    assert done.returncode != 0
    assert f"{shut}: Permission denied" in done.stderr
