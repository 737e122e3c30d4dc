"""Stage-out, without clients: what ends in the output directory, and how it comes there."""

from __future__ import annotations

import asyncio
import os
import random
import stat
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from output_ranks import Cluster
from output_staging import WAIT_S, run, settled, tree
from trees import ODD_NAMES

from fanstore.outputs.objects import files
from fanstore.outputs.stageout import copying, placing, supply
from fanstore.outputs.stageout.journal import Identity


def test_files_directories_links_and_attributes(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        assert not cluster.output_dir.exists()
        rank.mkdir(b"d", 0o750)
        rank.publish(b"d/file", b"content", 0o640, 1_500_000_000_123_456_789)
        rank.symlink(b"d/file", b"link")
        rank.symlink(b"/nowhere", b"d/dangling")
        rank.publish(b"in/put/directory/file", b"deep")
        rank.publish(b"empty")

    (summary,) = run(cluster, work)
    assert tree(cluster.output_dir) == {
        "d": None, "d/file": b"content", "link": "d/file", "d/dangling": "/nowhere", "in": None,
        "in/put": None, "in/put/directory": None, "in/put/directory/file": b"deep", "empty": b"",
    }  # fmt: skip
    found = os.stat(cluster.output_dir / "d/file")
    assert stat.S_IMODE(found.st_mode) == 0o640
    assert found.st_mtime_ns == 1_500_000_000_123_456_789
    assert stat.S_IMODE(os.stat(cluster.output_dir / "d").st_mode) == 0o750
    assert stat.S_IMODE(os.stat(cluster.output_dir / "in").st_mode) == 0o755
    assert summary["published"] == summary["staged"] == 3
    assert summary["staged_bytes"] == len(b"contentdeep")
    assert (summary["unplaced"], summary["lost"], summary["backups"]) == ([], [], [])
    assert not os.path.exists(tmp_path / "unstaged")


def test_nothing_is_made_where_nothing_is_published(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    run(cluster)
    assert not cluster.output_dir.exists()
    assert not (cluster.ranks[0].job_directory / "outputs.journal").exists()


def test_order_of_publication(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]
    came: list[bytes] = []
    put = placing.name_together

    def watched(pairs: Sequence[tuple[bytes, bytes]], ended: Any) -> list[Identity]:
        placed: list[Identity] = []
        for pair in pairs:
            placed += put([pair], ended)
            came.append(os.path.relpath(pair[1], os.fsencode(cluster.output_dir)))
        return placed

    monkeypatch.setattr(placing, "name_together", watched)
    names = [b"f%d" % number for number in range(30)]
    random.Random(1).shuffle(names)

    async def work() -> None:
        rank.mkdir(b"d")
        for name in names:
            rank.publish(b"d/" + name, name * 1000)

    run(cluster, work)
    assert came == [b"d/" + name for name in names]


@pytest.mark.parametrize("staged_before", [False, True])
def test_overwritten_and_unlinked(tmp_path: Path, staged_before: bool) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        rank.publish(b"twice", b"old")
        rank.publish(b"gone", b"old")
        rank.symlink(b"a", b"link")
        rank.mkdir(b"directory")
        rank.publish(b"directory/inside", b"x")
        if staged_before:
            await settled(rank)
            assert len(tree(cluster.output_dir)) == 6  # with the scratch directory
        rank.publish(b"twice", b"new")
        rank.unlink(b"gone")
        rank.unlink(b"link")
        rank.symlink(b"b", b"link")
        rank.unlink(b"directory/inside")
        rank.unlink(b"directory")

    (summary,) = run(cluster, work)
    assert tree(cluster.output_dir) == {"twice": b"new", "link": "b"}
    assert summary["backups"] == summary["unplaced"] == []


@pytest.mark.parametrize("staged_before", [False, True])
@pytest.mark.parametrize("ranks", [1, 4])
def test_renamed(tmp_path: Path, staged_before: bool, ranks: int) -> None:
    cluster = Cluster(tmp_path, ranks)
    rank, other = cluster.ranks[0], cluster.ranks[-1]

    async def work() -> None:
        rank.publish(b"latest", b"before")
        rank.publish(b"latest.tmp", b"after")
        rank.publish(b"across", b"a")
        rank.mkdir(b"d")
        if staged_before:
            await settled(rank)
        rank.rename(b"latest.tmp", b"latest")
        other.rename(b"across", b"d/across")

    summaries = run(cluster, work)
    assert tree(cluster.output_dir) == {"latest": b"after", "d": None, "d/across": b"a"}
    assert all(s["unplaced"] == s["backups"] == [] for s in summaries)


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_renamed_directory_takes_all_with_it_and_copies_nothing_again(
    tmp_path: Path, ranks: int
) -> None:
    cluster = Cluster(tmp_path, ranks)
    rank, other = cluster.ranks[0], cluster.ranks[-1]

    async def work() -> None:
        rank.mkdir(b"tmp-ckpt")
        rank.mkdir(b"tmp-ckpt/deep")
        rank.mkdir(b"tmp-ckpt/deep/er", 0o700)
        rank.symlink(b"x", b"tmp-ckpt/deep/link")
        other.publish(b"tmp-ckpt/model", b"m" * 100_000)
        rank.publish(b"tmp-ckpt/deep/er/state", b"s" * 100_000)
        await settled(rank)
        await settled(other)
        rank.rename(b"tmp-ckpt", b"ckpt")

    summaries = run(cluster, work)
    assert tree(cluster.output_dir) == {
        "ckpt": None, "ckpt/deep": None, "ckpt/deep/er": None, "ckpt/deep/link": "x",
        "ckpt/model": b"m" * 100_000, "ckpt/deep/er/state": b"s" * 100_000,
    }  # fmt: skip
    assert sum(s["copied_bytes"] for s in summaries) == 200_000
    assert all(s["unplaced"] == s["backups"] == [] for s in summaries)


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_directory_that_comes_back_while_it_is_moved_is_whole(
    tmp_path: Path, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path, ranks)
    rank, other = cluster.ranks[0], cluster.ranks[-1]
    loop, removed = None, []

    async def work() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        rank.mkdir(b"d")
        rank.mkdir(b"d/sub")
        for name in (b"one", b"two", b"three"):
            rank.publish(b"d/" + name, name)
            other.publish(b"d/sub/" + name, name)
        await settled(rank)
        await settled(other)
        remove_file = placing.OutputDirectory.remove_file

        def come_back(directory: Any, *args: Any) -> None:
            remove_file(directory, *args)
            removed.append(args)
            assert loop is not None
            if len(removed) == 2:
                loop.call_soon_threadsafe(rank.rename, b"e", b"d")

        monkeypatch.setattr(placing.OutputDirectory, "remove_file", come_back)
        rank.rename(b"d", b"e")

    summaries = run(cluster, work)
    files = {f"{d}/{n}": n.encode() for d in ("d", "d/sub") for n in ("one", "two", "three")}
    assert tree(cluster.output_dir) == {"d": None, "d/sub": None, **files}
    assert all(s["unplaced"] == s["backups"] == [] for s in summaries)


@pytest.mark.parametrize("staged_before", [False, True])
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_new_directory_where_one_was_renamed_is_empty(
    tmp_path: Path, ranks: int, staged_before: bool
) -> None:
    cluster = Cluster(tmp_path, ranks)
    rank = cluster.ranks[0]

    async def work() -> None:
        for path in (b"d", b"d/e", b"d/e/g"):
            rank.mkdir(path)
        rank.publish(b"d/e/file", b"1")
        if staged_before:
            await settled(rank)
        rank.rename(b"d", b"moved")
        rank.mkdir(b"d")

    run(cluster, work)
    assert tree(cluster.output_dir) == {
        "d": None, "moved": None, "moved/e": None, "moved/e/g": None, "moved/e/file": b"1"
    }  # fmt: skip


def test_kinds_change(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        rank.mkdir(b"a")
        rank.mkdir(b"a/b")
        rank.publish(b"a/b/c", b"1")
        rank.publish(b"file", b"2")
        rank.symlink(b"t", b"link")
        await settled(rank)
        rank.unlink(b"a/b/c")
        rank.unlink(b"a/b")
        rank.unlink(b"a")
        rank.publish(b"a", b"a file now")
        rank.unlink(b"file")
        rank.mkdir(b"file")
        rank.publish(b"file/inside", b"3")
        rank.publish(b"link", b"a file now")

    (summary,) = run(cluster, work)
    assert tree(cluster.output_dir) == {
        "a": b"a file now", "file": None, "file/inside": b"3", "link": b"a file now",
    }  # fmt: skip
    assert summary["backups"] == summary["unplaced"] == []


def test_changed_attributes(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        rank.publish(b"file", b"1", 0o600)
        rank.mkdir(b"d", 0o700)
        await settled(rank)
        rank.chmod(b"file", 0o444)
        rank.chmod(b"d", 0o555)
        rank.publish(b"d/late", b"")
        await settled(rank)
        rank.publish(b"file", b"2", 0o640)

    run(cluster, work)
    assert stat.S_IMODE(os.stat(cluster.output_dir / "file").st_mode) == 0o640
    assert stat.S_IMODE(os.stat(cluster.output_dir / "d").st_mode) == 0o555
    assert tree(cluster.output_dir) == {"file": b"2", "d": None, "d/late": b""}


def test_odd_names(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]
    long = b"/".join([b"l" * 255] * 3)

    async def work() -> None:
        for name in ODD_NAMES:
            rank.publish(name, name)
        rank.publish(long, b"long")

    (summary,) = run(cluster, work)
    assert summary["unplaced"] == []
    for name in ODD_NAMES:
        with open(os.fsencode(cluster.output_dir) + b"/" + name, "rb") as stream:
            assert stream.read() == name
    with open(os.fsencode(cluster.output_dir) + b"/" + long, "rb") as stream:
        assert stream.read() == b"long"


def test_copies_with_holes_by_each_way(tmp_path: Path) -> None:
    """Within a file system, which the kernel does, and to another one."""
    source = tmp_path / "source"
    with open(source, "wb") as stream:
        stream.seek(3 << 20)
        stream.write(random.Random(2).randbytes((2 << 20) + 5))
        stream.seek(12 << 20)
        stream.write(b"x")
        stream.truncate(20 << 20)
    attr = placing.Attr.of(os.lstat(source))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        if os.stat(elsewhere).st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("there is only one file system")
        for directory in (str(tmp_path), elsewhere):
            told: list[int] = []
            os.utime(source, ns=(1, attr.mtime_ns))
            copy = os.fsencode(os.path.join(directory, "copy"))
            copying.copy_object(os.fsencode(source), copy, attr, told.append)
            assert os.lstat(source).st_atime_ns == 1
            with open(copy, "rb") as stream:
                assert stream.read() == source.read_bytes()
            assert sum(told) == 20 << 20
            assert os.lstat(copy).st_blocks * 512 < 8 << 20
            assert os.lstat(copy).st_mtime_ns == attr.mtime_ns


def test_a_file_is_whole_and_synced_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path)
    steps: list[tuple[str, bytes]] = []
    fsync, put = os.fsync, placing.name_together

    def watched_fsync(fd: int) -> None:
        fsync(fd)
        steps.append(("sync", os.path.basename(os.fsencode(os.readlink(f"/proc/self/fd/{fd}")))))

    def watched_put(pairs: Sequence[tuple[bytes, bytes]], ended: Any) -> list[Identity]:
        ((old, new),) = pairs
        assert Path(os.fsdecode(old)).read_bytes() == b"data" * 1000
        placed = put(pairs, ended)
        steps.append(("name", os.path.basename(new)))
        return placed

    monkeypatch.setattr(copying.os, "fsync", watched_fsync)
    monkeypatch.setattr(placing, "name_together", watched_put)

    async def work() -> None:
        cluster.ranks[0].publish(b"file", b"data" * 1000)

    run(cluster, work)
    assert steps == [("sync", b"1.1.part"), ("name", b"file"), ("sync", b"out")]


def test_replaced_while_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]
    began, go_on = threading.Event(), threading.Event()
    copy = files.copy_bytes

    def slowly(*args: Any) -> None:
        began.set()
        assert go_on.wait(WAIT_S)
        copy(*args)

    monkeypatch.setattr(files, "copy_bytes", slowly)
    monkeypatch.setattr(supply, "SMALL_BYTES", 0)  # of larger files alone the copy can be watched

    async def work() -> None:
        rank.publish(b"file", b"old")
        rank.publish(b"unlinked", b"old")
        await asyncio.to_thread(began.wait, WAIT_S)
        rank.publish(b"file", b"new")
        rank.unlink(b"unlinked")
        go_on.set()

    (summary,) = run(cluster, work)
    assert tree(cluster.output_dir) == {"file": b"new"}
    assert summary["unplaced"] == summary["backups"] == []


def test_what_is_gone_is_not_copied_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PIECE_BYTES", 1000)
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]
    began, go_on = threading.Event(), threading.Event()
    advance = supply.Supplier._advance

    def slowly(*args: Any) -> None:
        began.set()
        assert go_on.wait(WAIT_S)
        advance(*args)

    monkeypatch.setattr(supply.Supplier, "_advance", slowly)
    monkeypatch.setattr(supply, "SMALL_BYTES", 0)

    async def work() -> None:
        rank.publish(b"unlinked", b"1" * 100_000)
        await asyncio.to_thread(began.wait, WAIT_S)
        rank.unlink(b"unlinked")
        go_on.set()

    (summary,) = run(cluster, work)
    assert summary["copied_bytes"] <= 1000
    assert tree(cluster.output_dir) == {}
