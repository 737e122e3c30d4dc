"""prepare --update: readers see what a fresh dataset would show, whatever ends the update."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from inprocess import call
from small_disk import small_disk
from soak import combined, one_of, sampled
from trees import make_odd_tree, snapshot

from fanstore.arrays import np
from fanstore.dataset import open_dataset, pack_name

LIMIT_S = 60.0
AS_READ = (
    "logical_size", "checksum", "mtime_ns", "parent", "mode", "owner", "nlink", "name_bytes",
)  # fmt: skip


def make_source(root: Path) -> None:
    """Directories of files of different sizes, links, an empty file."""
    root.mkdir()
    rng = np.random.default_rng(1)
    for folder in ("a", "b", "c"):
        (root / folder).mkdir()
        for number in range(8):
            (root / folder / f"file{number}").write_bytes(rng.bytes(3000 + 17000 * number))
    os.link(root / "a" / "file3", root / "b" / "linked")
    (root / "link").symlink_to("a/file1")
    (root / "empty").write_bytes(b"")
    (root / "compresses").write_bytes(b"again and again " * 200_000)


def facts(dataset: Path) -> object:
    """All that readers see of a dataset but the content, for which the checksums stand."""
    with open_dataset(dataset, verify=True) as opened:
        opened.check_records()
        count = len(opened.records)
        rows = [tuple(opened.records[field].tolist() for field in AS_READ)]
        directories = (opened.records["mode"] & 0o170000) == 0o040000
        spans = np.where(directories, opened.records["stored_size"], 0).tolist()
        paths = [opened.relpath(record) for record in range(count)]
        owners = [opened.owner(record) for record in range(count)]
        links = opened.links.tolist()
        targets = [
            opened.target(record)
            for record in np.flatnonzero((opened.records["mode"] & 0o170000) == 0o120000)
        ]
        return rows, spans, paths, owners, links, targets


def check_fresh(source: Path, data: Path, work: Path) -> None:
    """Compares a dataset with one made afresh, and its bytes with the source."""
    call("prepare", "--quiet", source, work / "fresh")
    assert facts(data) == facts(work / "fresh")
    call("verify", "--quiet", data)
    call("extract", "--quiet", data, work / "out")
    assert snapshot(work / "out") == snapshot(source)
    shutil.rmtree(work / "fresh")
    shutil.rmtree(work / "out")


def check_rebuilt(data: Path) -> None:
    """The packs alone give the same index."""
    index = data / "index.fsi"
    before = index.read_bytes()
    index.unlink()
    call("dataset", "rebuild-index", data)
    assert index.read_bytes() == before


def nothing_else(folder: Path) -> None:
    assert not list(folder.glob(".fanstore-prepare-*"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    make_source(tmp_path / "source")
    return tmp_path / "source"


def _change(root: Path) -> None:
    (root / "a" / "file2").write_bytes(b"changed" * 5000)


def _swap_kinds(root: Path) -> None:
    (root / "a" / "file1").unlink()
    (root / "a" / "file1").mkdir()
    shutil.rmtree(root / "b")
    (root / "b").write_bytes(b"was a directory")
    (root / "link").unlink()
    (root / "link").write_bytes(b"was a link")


def _relink(root: Path) -> None:
    (root / "b" / "linked").unlink()
    os.link(root / "c" / "file4", root / "b" / "linked")
    os.link(root / "a" / "file3", root / "zz")


CHANGES: dict[str, Callable[[Path], object]] = {
    "add": lambda root: (root / "c" / "new").write_bytes(b"n" * 70000),
    "change": _change,
    "remove": lambda root: (root / "c" / "file7").unlink(),
    "remove a directory": lambda root: shutil.rmtree(root / "a"),
    "rename": lambda root: (root / "a" / "file5").rename(root / "c" / "moved"),
    "rename a directory": lambda root: (root / "a").rename(root / "zz"),
    "mode": lambda root: (root / "a" / "file5").chmod(0o600),
    "mode of a directory": lambda root: (root / "a").chmod(0o700),
    "time": lambda root: os.utime(root / "a" / "file5", ns=(5, 5)),
    "time of a directory": lambda root: os.utime(root / "c", ns=(5, 7)),
    "time of the root": lambda root: os.utime(root, ns=(5, 9)),
    "target": lambda root: ((root / "link").unlink(), (root / "link").symlink_to("b/file1")),
    "other kinds": _swap_kinds,
    "hard links": _relink,
    "empty": lambda root: (root / "c" / "none").write_bytes(b""),
    "emptied": lambda root: (root / "a" / "file6").write_bytes(b""),
}


@pytest.mark.parametrize("change, codec", one_of(3, combined(list(CHANGES), ["store", "zstd:1"])))
def test_readers_see_what_a_fresh_dataset_shows(
    source: Path, tmp_path: Path, change: str, codec: str
) -> None:
    data = tmp_path / "data"
    call("prepare", "--quiet", "--partitions", "3", "--codec", codec, source, data)
    CHANGES[change](source)
    call("prepare", "--quiet", "--update", source, data)
    check_fresh(source, data, tmp_path)
    check_rebuilt(data)
    nothing_else(tmp_path)


def test_one_update_after_another(tmp_path: Path) -> None:
    source, data = tmp_path / "source", tmp_path / "data"
    make_source(source)
    call("prepare", "--quiet", "--partitions", "4", source, data)
    rng = np.random.default_rng(2)
    for step in range(6):
        (source / "c" / f"step{step}").write_bytes(rng.bytes(300_000))
        (source / "a" / f"file{step}").unlink()
        call("prepare", "--quiet", "--update", source, data)
        check_fresh(source, data, tmp_path)
        check_rebuilt(data)
        with open_dataset(data) as opened:
            stored = opened.header.stored_bytes
            whole = sum(opened.pack_info(p).file_bytes for p in range(opened.pack_count))
            assert whole < 2 * stored + opened.pack_count * 8192
            assert opened.pack_count <= 4 + step + 1


def test_odd_names_and_files(tmp_path: Path) -> None:
    source, data = tmp_path / "source", tmp_path / "data"
    make_odd_tree(source)
    call("prepare", "--quiet", "--partitions", "3", source, data)
    assert b"up to date" in call("prepare", "--update", source, data).stdout
    (source / "new").write_bytes(b"new" * 1000)
    call("prepare", "--quiet", "--update", source, data)
    check_fresh(source, data, tmp_path)
    check_rebuilt(data)


def test_only_what_changed_is_read(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (source / "compresses").unlink()  # larger than two packs of three
    call("prepare", "--quiet", "--partitions", "3", source, data)
    hidden = source / "c" / "file5"
    before = hidden.stat()
    hidden.write_bytes(b"x" * before.st_size)
    os.utime(hidden, ns=(before.st_atime_ns, before.st_mtime_ns))
    (source / "new").write_bytes(b"new")
    packs = {path.name: path.stat().st_ino for path in data.glob("pack-*")}
    call("prepare", "--quiet", "--update", source, data)
    assert {name: (data / name).stat().st_ino for name in packs} == packs
    assert (data / pack_name(3)).exists()
    call("extract", "--quiet", data, tmp_path / "out")
    assert (tmp_path / "out" / "c" / "file5").read_bytes() != hidden.read_bytes()


def test_nothing_changed_changes_nothing(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    call("prepare", "--quiet", source, data)
    (source / "new").write_bytes(b"new")
    call("prepare", "--quiet", "--update", source, data)
    before = {path.name: (path.stat().st_ino, path.read_bytes()) for path in data.iterdir()}
    assert call("prepare", "--update", source, data).stdout.endswith(b": is up to date\n")
    assert {p.name: (p.stat().st_ino, p.read_bytes()) for p in data.iterdir()} == before


def test_replicated_files_stay_so(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    call("prepare", "--quiet", "--replicate", "a", source, data)
    (source / "a" / "file2").write_bytes(b"changed" * 5000)
    (source / "c" / "new").write_bytes(b"new")
    call("prepare", "--quiet", "--update", source, data)
    with open_dataset(data) as opened:
        for path, everywhere in ((b"a/file2", True), (b"a/file3", True), (b"c/new", False)):
            pack = int(opened.records["pack"][opened.lookup(path)])
            assert opened.pack_info(pack).everywhere == everywhere, path
    check_fresh(source, data, tmp_path)
    check_rebuilt(data)


def test_two_updates_at_once_are_refused(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    call("prepare", "--quiet", source, data)
    fd = os.open(data, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        done = call("prepare", "--update", source, data, code=2)
    finally:
        os.close(fd)
    assert "another update of it is running" in done.stderr
    call("prepare", "--update", source, data)


@pytest.mark.parametrize("option", ["--force", "--block-size=4096", "--partitions=2"])
def test_what_does_not_go_with_it(source: Path, tmp_path: Path, option: str) -> None:
    data = tmp_path / "data"
    call("prepare", "--quiet", source, data)
    done = call("prepare", "--update", option, source, data, code=2)
    assert "does not go with --update" in done.stderr


def test_no_dataset_and_a_damaged_one(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert "no such directory" in call("prepare", "--update", source, data, code=2).stderr
    assert not data.exists()
    call("prepare", "--quiet", source, data)
    (data / pack_name(0)).write_bytes(b"short")
    call("prepare", "--update", source, data, code=3)
    nothing_else(tmp_path)


def test_a_full_disk_changes_nothing(source: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk", "12m"):
        data = tmp_path / "disk" / "data"
        call("prepare", "--quiet", source, data)
        before = facts(data)
        (source / "large").write_bytes(b"".join(b"%9d" % n for n in range(1_500_000)))
        done = call("prepare", "--quiet", "--update", source, data, code=125)
        assert "No space left on device: the source has 12.9 MiB" in done.stderr
        assert "in its new and changed files" in done.stderr
        assert facts(data) == before
        nothing_else(data.parent)
        (source / "large").unlink()
        call("prepare", "--quiet", "--update", source, data)
        call("verify", "--quiet", data)


# Sends itself a signal at the n-th thing that is asked of the system about a directory.
_ENDING = """
import os, signal, sys
from fanstore.cli import main
import fanstore.prepare.run
at, number, folder = int(sys.argv[1]), int(sys.argv[2]), os.fsencode(sys.argv[3])
count = 0
def watch(event, arguments):
    global count
    if event not in ("open", "os.link", "os.mkdir", "os.rename", "os.remove", "os.rmdir"):
        return
    path = arguments[0]
    if isinstance(path, int) or not os.fsencode(path).startswith(folder):
        return
    count += 1
    if count == at:
        os.kill(os.getpid(), number)
sys.addaudithook(watch)
main(sys.argv[4:])
"""


def run_ending(at: int, number: int, folder: Path, *arguments: str | Path) -> int:
    argv = [sys.executable, "-c", _ENDING, str(at), str(number), str(folder), *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, timeout=LIMIT_S, check=False).returncode


def check_ended(tmp_path: Path, step: int, number: int) -> bool:
    """Ends an update at its `step`-th call; whether it came so far."""
    source, data = tmp_path / "source", tmp_path / "data"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(tmp_path / "before", data)
    code = run_ending(step, number, tmp_path, "prepare", "--quiet", "--update", source, data)
    assert facts(data) in (facts(tmp_path / "before"), facts(tmp_path / "after"))
    call("verify", "--quiet", data)
    for left in tmp_path.glob(".fanstore-prepare-*"):  # one without a lock file waits ten minutes
        os.utime(left, (0, 0))
    call("prepare", "--quiet", "--update", source, data)
    assert (data / "index.fsi").read_bytes() == (tmp_path / "after" / "index.fsi").read_bytes()
    nothing_else(tmp_path)
    return code != 0


@pytest.mark.parametrize(
    "number, step",
    combined([signal.SIGKILL, signal.SIGINT], sampled(range(1, 71), (3, 11, 19, 27, 33))),
)
def test_an_end_at_any_call(
    source: Path, tmp_path: Path, step: int, number: signal.Signals
) -> None:
    call("prepare", "--quiet", "--partitions", "3", source, tmp_path / "before")
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    (source / "b" / "file6").write_bytes(b"changed" * 9000)
    (source / "a" / "file6").unlink()
    call("prepare", "--quiet", "--update", source, tmp_path / "after")
    assert facts(tmp_path / "before") != facts(tmp_path / "after")
    ended = check_ended(tmp_path, step, number)
    assert ended or step > 33
