"""Stage-out, without clients: what ends in the output directory, when, and what is never lost."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import shutil
import stat
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from output_ranks import Cluster, Rank
from small_disk import small_disk
from trees import ODD_NAMES

from fanstore.outputs import placing, supply
from fanstore.outputs.entries import Place, home_of
from fanstore.outputs.journal import Header, Journal, Name, read_journal
from fanstore.outputs.location import folders_of, problem_of
from fanstore.outputs.reconcile import Reconciled
from fanstore.outputs.renaming import back_up
from fanstore.outputs.rescue import left_behind, needs_rescue, rescue
from fanstore.outputs.stageout import StageOut

WAIT_S = 60.0


def run(
    cluster: Cluster, work: Callable[[], Awaitable[None]] | None = None, started: bool = True
) -> list[dict[str, Any]]:
    """Stages out what `work` does; the summaries."""

    async def whole() -> list[dict[str, Any]]:
        if started:
            cluster.start()
        if work is not None:
            await work()
        if not started:
            cluster.start()
        try:
            return await asyncio.wait_for(cluster.flush(), WAIT_S)
        finally:
            cluster.close()

    return asyncio.run(whole())


def settled(rank: Rank) -> Awaitable[None]:
    """Until a rank's line is empty, without the haste of the end."""

    async def wait() -> None:
        for _ in range(6000):
            if rank.stage_out.figures()["waiting"] == 0:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("nothing moves")

    return wait()


def tree(directory: Path) -> dict[str, bytes | str | None]:
    """Each name below, with a file's bytes, a link's target, or None."""
    found: dict[str, bytes | str | None] = {}
    for folder, names, files in os.walk(directory):
        for name in names + files:
            path = Path(folder, name)
            shown = os.fspath(path.relative_to(directory))
            if path.is_symlink():
                found[shown] = os.readlink(path)
            else:
                found[shown] = path.read_bytes() if path.is_file() else None
    return found


def test_files_directories_links_and_attributes(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        assert not cluster.output_dir.exists()
        rank.mkdir(b"d", 0o750)
        rank.publish(b"d/file", b"content", 0o640, 1_500_000_000_123_456_789)
        rank.symlink(b"d/file", b"link")
        rank.symlink(b"/nowhere", b"d/dangling")
        rank.mkfifo(b"fifo")
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
    put = placing.rename_to_free

    def watched(old: bytes, new: bytes) -> None:
        put(old, new)
        came.append(os.path.relpath(new, os.fsencode(cluster.output_dir)))

    monkeypatch.setattr(placing, "rename_to_free", watched)
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


def test_copies_with_holes_by_each_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    with open(source, "wb") as stream:
        stream.seek(3 << 20)
        stream.write(random.Random(2).randbytes((2 << 20) + 5))
        stream.seek(12 << 20)
        stream.write(b"x")
        stream.truncate(20 << 20)
    attr = placing.Attr.of(os.lstat(source))

    def cannot(*_: Any) -> int:
        raise OSError(errno.EXDEV, "cross-device")

    for number, name in enumerate(("none", "copy_file_range", "sendfile")):
        if number:
            monkeypatch.setattr(supply.os, name, cannot)
        told: list[int] = []
        os.utime(source, ns=(1, attr.mtime_ns))
        copy = os.fsencode(tmp_path / f"copy{number}")
        supply.copy_object(os.fsencode(source), copy, attr, told.append)
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
    fsync, put = os.fsync, placing.rename_to_free

    def watched_fsync(fd: int) -> None:
        fsync(fd)
        steps.append(("sync", os.path.basename(os.fsencode(os.readlink(f"/proc/self/fd/{fd}")))))

    def watched_put(old: bytes, new: bytes) -> None:
        assert Path(os.fsdecode(old)).read_bytes() == b"data" * 1000
        put(old, new)
        steps.append(("name", os.path.basename(new)))

    monkeypatch.setattr(supply.os, "fsync", watched_fsync)
    monkeypatch.setattr(placing, "rename_to_free", watched_put)

    async def work() -> None:
        cluster.ranks[0].publish(b"file", b"data" * 1000)

    run(cluster, work)
    assert steps == [("sync", b"1.part"), ("name", b"file"), ("sync", b"out")]


def test_replaced_while_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]
    copying, go_on = threading.Event(), threading.Event()
    copy = supply._copy_data

    def slowly(*args: Any) -> None:
        copying.set()
        assert go_on.wait(WAIT_S)
        copy(*args)

    monkeypatch.setattr(supply, "_copy_data", slowly)

    async def work() -> None:
        rank.publish(b"file", b"old")
        rank.publish(b"unlinked", b"old")
        await asyncio.to_thread(copying.wait, WAIT_S)
        rank.publish(b"file", b"new")
        rank.unlink(b"unlinked")
        go_on.set()

    (summary,) = run(cluster, work)
    assert tree(cluster.output_dir) == {"file": b"new"}
    assert summary["unplaced"] == summary["backups"] == []


def test_what_is_gone_is_not_copied_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supply, "_PIECE_BYTES", 1000)
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]
    copying, go_on = threading.Event(), threading.Event()
    piece = supply._in_kernel

    def slowly(*args: Any) -> int:
        copying.set()
        assert go_on.wait(WAIT_S)
        return piece(*args)

    monkeypatch.setattr(supply, "_in_kernel", slowly)

    async def work() -> None:
        rank.publish(b"unlinked", b"1" * 100_000)
        await asyncio.to_thread(copying.wait, WAIT_S)
        rank.unlink(b"unlinked")
        go_on.set()

    (summary,) = run(cluster, work)
    assert summary["copied_bytes"] <= 1000
    assert tree(cluster.output_dir) == {}


def test_what_was_there_is_kept(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    out = cluster.output_dir
    (out / "parent").mkdir(parents=True)
    (out / "parent/mine").write_text("somebody's")
    (out / "file").write_text("somebody's")
    (out / "file.~1~").write_text("older")
    (out / "blocked").write_text("a file where a directory comes")
    (out / "folder/inside").mkdir(parents=True)
    (out / ("n" * 255)).write_text("long")
    rank = cluster.ranks[0]

    async def work() -> None:
        rank.mkdir(b"parent")
        rank.publish(b"parent/own", b"1")
        rank.publish(b"file", b"2")
        rank.mkdir(b"blocked")
        rank.publish(b"folder", b"3")
        rank.publish(b"n" * 255, b"4")
        await settled(rank)
        rank.publish(b"file", b"2 again")
        rank.unlink(b"parent/own")
        rank.unlink(b"parent")

    (summary,) = run(cluster, work)
    assert tree(out) == {
        "parent": None, "parent/mine": b"somebody's", "file": b"2 again", "file.~1~": b"older",
        "file.~2~": b"somebody's", "blocked": None, "folder": b"3", "folder.~1~": None,
        "blocked.~1~": b"a file where a directory comes", "folder.~1~/inside": None,
        "n" * 255: b"4", "n" * 251 + ".~1~": b"long",
    }  # fmt: skip
    assert sorted(summary["backups"]) == sorted(
        ["file.~2~", "blocked.~1~", "folder.~1~", "n" * 251 + ".~1~"]
    )
    assert summary["backup_count"] == 4


def test_what_somebody_changed_is_not_overwritten(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank, out = cluster.ranks[0], cluster.output_dir

    async def work() -> None:
        for name in (b"replaced", b"unlinked", b"edited"):
            rank.publish(name, b"ours")
        await settled(rank)
        for name in ("replaced", "unlinked"):
            (out / f"{name}.new").write_text("theirs")
            os.rename(out / f"{name}.new", out / name)
        (out / "edited").write_text("theirs, longer")
        rank.publish(b"replaced", b"ours again")
        rank.unlink(b"unlinked")
        rank.publish(b"edited", b"ours again")

    run(cluster, work)
    assert tree(out) == {
        "replaced": b"ours again", "replaced.~1~": b"theirs", "unlinked": b"theirs",
        "edited": b"ours again", "edited.~1~": b"theirs, longer",
    }  # fmt: skip


@pytest.mark.parametrize("can_exchange", [True, False])
def test_two_jobs_with_one_output_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(placing, "exchange", lambda *_: False)
    out = tmp_path / "out"
    jobs = [Cluster(tmp_path / f"base{n}", 1, out, job=f"job{n}-") for n in range(2)]

    async def whole() -> None:
        for job in jobs:
            job.start()
        for turn in range(20):
            for number, job in enumerate(jobs):
                job.ranks[0].publish(b"same", b"%d of %d" % (turn, number))
                job.ranks[0].publish(b"own%d" % number, b"%d" % turn)
            await asyncio.sleep(0.002)
        await asyncio.gather(*(job.flush() for job in jobs))
        for job in jobs:
            job.close()

    asyncio.run(whole())
    found = tree(out)
    assert found["own0"] == found["own1"] == b"19"
    versions = [content for name, content in found.items() if name.startswith("same")]
    assert {b"19 of 0", b"19 of 1"} <= set(versions)
    assert len(set(versions)) == len(versions)


def test_full_output_directory(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with small_disk(out):
        cluster = Cluster(tmp_path)
        rank = cluster.ranks[0]
        (out / "room").write_bytes(bytes(700_000))
        (out / "theirs").write_bytes(b"theirs")

        async def work() -> None:
            rank.publish(b"first", b"1" * 100_000)
            await settled(rank)
            rank.publish(b"first", b"2" * 600_000)
            rank.publish(b"second", b"small")
            while not rank.stage_out.figures()["blocked"]:
                await asyncio.sleep(0.01)
            assert "No space left" in rank.stage_out.figures()["blocked"]
            assert (out / "first").read_bytes() == b"1" * 100_000
            assert not (out / "second").exists()
            assert not list(out.glob(".fanstore-*/*"))
            (out / "room").unlink()
            await settled(rank)

        (summary,) = run(cluster, work)
        assert tree(out) == {"first": b"2" * 600_000, "second": b"small", "theirs": b"theirs"}
        assert (summary["unplaced"], summary["blocked"]) == ([], "")


def test_what_finds_no_room_is_kept_and_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with small_disk(out):
        cluster = Cluster(tmp_path)
        rank = cluster.ranks[0]

        async def work() -> None:
            rank.publish(b"large", b"1" * 2_000_000)
            rank.publish(b"large too", b"2" * 2_000_000)
            rank.publish(b"small", b"small")

        (summary,) = run(cluster, work)
        assert tree(out) == {"small": b"small"}
        reason = os.strerror(errno.ENOSPC)
        assert summary["unplaced"] == [("large", reason), ("large too", reason)]
        assert summary["unplaced_count"] == 2
        kept = tree(Path(summary["kept"]))
        assert kept == {"large": b"1" * 2_000_000, "large too": b"2" * 2_000_000}


@pytest.mark.parametrize("problem", ["file", "no parent", "file too large"])
def test_output_directory_that_cannot_be(
    tmp_path: Path, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    if problem == "file":
        out.write_text("a file")
    elif problem == "no parent":
        out = tmp_path / "missing" / "out"
    else:

        def no_room(*_: Any) -> None:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

        monkeypatch.setattr(supply, "_copy_data", no_room)
    cluster = Cluster(tmp_path, output_dir=out)

    async def work() -> None:
        cluster.ranks[0].publish(b"d/file", b"content")
        cluster.ranks[0].symlink(b"target", b"link")

    (summary,) = run(cluster, work)
    kept = tree(Path(summary["kept"]))
    assert kept["d/file"] == b"content"
    assert next(name for name, _ in summary["unplaced"]) == "d/file"
    if problem == "file too large":
        assert tree(out) == {"link": "target"}
    else:
        assert kept["link"] == "target"
        assert summary["unplaced_count"] == 2
    assert out.is_dir() == (problem == "file too large")


def test_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]
    copying, go_on = threading.Event(), threading.Event()
    copy = supply._copy_range

    def slowly(*args: Any) -> None:
        copying.set()
        assert go_on.wait(WAIT_S)
        copy(*args)

    monkeypatch.setattr(supply, "_copy_range", slowly)

    async def whole() -> dict[str, Any]:
        cluster.start()
        rank.publish(b"one", b"1" * 1000)
        rank.publish(b"two", b"2")
        flush = asyncio.ensure_future(rank.stage_out.flush())
        await asyncio.to_thread(copying.wait, WAIT_S)
        rank.stage_out.give_up()
        go_on.set()
        await asyncio.wait_for(flush, WAIT_S)
        summary = await cluster.account(rank)
        cluster.close()
        return summary

    summary = asyncio.run(whole())
    assert [name for name, _ in summary["unplaced"]] == ["one", "two"]
    assert tree(Path(summary["kept"])) == {"one": b"1" * 1000, "two": b"2"}


def test_several_ranks(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 4)

    async def work() -> None:
        cluster.ranks[1].mkdir(b"ckpt")
        for number, rank in enumerate(cluster.ranks):
            for each in range(10):
                rank.publish(b"ckpt/shard-%d-%d" % (number, each), b"%d" % number * 1000)
        cluster.ranks[3].publish(b"ckpt/shard-0-0", b"another's now")
        cluster.ranks[2].unlink(b"ckpt/shard-1-1")

    summaries = run(cluster, work)
    found = tree(cluster.output_dir)
    assert len(found) == 1 + 39
    assert found["ckpt/shard-0-0"] == b"another's now"
    assert found["ckpt/shard-2-7"] == b"2" * 1000
    assert [s["unplaced"] for s in summaries] == [[]] * 4
    assert sum(s["published"] for s in summaries) == 41


def lose(cluster: Cluster, rank: int) -> None:
    for peers in cluster.net:
        if peers.rank != rank:
            peers.lose(rank)
    cluster.ranks[rank].stage_out.give_up()


def test_a_lost_ranks_outputs_are_named_by_its_witness(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 3)

    async def work() -> None:
        cluster.ranks[0].publish(b"placed", b"1")
        await settled(cluster.ranks[0])
        for each in range(3):
            cluster.ranks[0].publish(b"unplaced%d" % each, b"2" * 100_000)
        cluster.ranks[0].unlink(b"unplaced1")
        lose(cluster, 0)

    first, second = run(cluster, work)
    assert first["lost"] == ["unplaced0", "unplaced2"]
    assert second["lost"] == []
    assert tree(cluster.output_dir)["placed"] == b"1"


def test_names_whose_home_is_lost_are_placed_by_the_owner(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 3)
    home = home_of(0, b"ckpt", 3)
    owner = (home + 1) % 3

    async def work() -> None:
        for each in range(3):
            cluster.ranks[owner].publish(b"ckpt/%d" % each, b"%d" % each)
        lose(cluster, home)

    summaries = run(cluster, work)
    assert tree(cluster.output_dir / "ckpt") == {"0": b"0", "1": b"1", "2": b"2"}
    assert all(s["unplaced"] == [] for s in summaries)


@pytest.mark.parametrize("own", [False, True])
def test_no_link_leads_out_of_the_output_directory(tmp_path: Path, own: bool) -> None:
    """A link in the place of a directory: somebody's, or the program's own, which another rank has
    replaced by a directory that nobody has placed yet."""
    cluster = Cluster(tmp_path, 2)
    rank, other = cluster.ranks
    victim, out = tmp_path / "victim", cluster.output_dir
    (victim / "empty").mkdir(parents=True)

    async def work() -> None:
        rank.publish(b"first")
        if own:
            rank.symlink(os.fsencode(victim), b"a")
        await settled(rank)
        if not own:
            (out / "a").symlink_to(victim)
        other.publish(b"a/x", b"1")
        other.publish(b"a/deep/y", b"2")
        await settled(other)

    summaries = run(cluster, work)
    assert tree(victim) == {"empty": None}
    assert (out / "a/x").read_bytes() == b"1"
    assert (out / "a/deep/y").read_bytes() == b"2"
    assert os.readlink(out / "a.~1~") == os.fspath(victim)
    assert [name for summary in summaries for name in summary["backups"]] == ["a.~1~"]
    assert all(summary["unplaced"] == [] for summary in summaries)


def test_what_is_not_placed_leaves_no_copy(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        rank.publish(b"n" * 300, b"too long a name")
        rank.publish(b"other")

    (summary,) = run(cluster, work)
    assert summary["unplaced_count"] == 1
    assert tree(cluster.output_dir) == {"other": b""}


def test_what_cannot_even_be_kept_is_left_to_a_rescue(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank, job = cluster.ranks[0], str(cluster.ranks[0].job_directory)
    (tmp_path / "unstaged").write_bytes(b"")
    cluster.output_dir.write_bytes(b"")

    async def work() -> None:
        rank.publish(b"file", b"content")

    (summary,) = run(cluster, work)
    ((name, reason),) = summary["unplaced"]
    assert name == "file" and "not kept" in reason
    assert needs_rescue(job)
    cluster.output_dir.unlink()
    found = rescue(job)
    assert found is not None and found.placed == ["file"]
    assert tree(cluster.output_dir) == {"file": b"content"}


def test_a_journal_line_cut_off_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path), Header("job", b"/out", (b"",), 0o022, 0))
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:9]))
    journal.name(1, Name(0, b"cut off"), 1)
    monkeypatch.undo()
    journal.name(2, Name(0, b"whole"), 1)
    journal.close()
    found = read_journal(str(path))
    assert found is not None and found[1].named == {2: Name(0, b"whole")}


# -- Rescue: the daemon is killed, its process's memory gone ------------------------------------


def killed(cluster: Cluster, work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work`, then nothing more."""

    async def whole() -> None:
        cluster.start()
        await work()
        for rank in cluster.ranks:
            rank.stage_out.give_up()

    asyncio.run(whole())


def test_rescue(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]
    job = str(rank.job_directory)

    async def work() -> None:
        rank.publish(b"overwritten", b"1")
        rank.publish(b"renamed.tmp", b"2")
        rank.publish(b"unlinked", b"3")
        rank.publish(b"whole", b"4")
        rank.mkdir(b"tmp")
        rank.publish(b"tmp/inside", b"5")
        await settled(rank)
        rank.stage_out.give_up()
        rank.publish(b"overwritten", b"1 again")
        rank.rename(b"renamed.tmp", b"renamed")
        rank.unlink(b"unlinked")
        rank.publish(b"new\nname", b"6", 0o600, 1_500_000_000_123_456_789)
        rank.symlink(b"whole", b"link")
        rank.mkdir(b"directory")
        rank.rename(b"tmp", b"ckpt")

    killed(cluster, work)
    with open(rank.job_directory / "outputs.journal", "ab") as stream:
        stream.write(b'["name", 7, 0, "cut o')
    assert needs_rescue(job)
    done = rescue(job)
    assert done is not None
    assert sorted(done.placed) == ["ckpt/inside", "new\nname", "overwritten", "renamed"]
    assert done.kept == []
    found = tree(cluster.output_dir)
    assert found.pop("tmp", None) is None  # the empty directory of before
    assert found == {
        "overwritten": b"1 again", "renamed": b"2", "whole": b"4", "new\nname": b"6",
        "link": "whole", "directory": None, "ckpt": None, "ckpt/inside": b"5",
    }  # fmt: skip
    assert os.stat(cluster.output_dir / "new\nname").st_mtime_ns == 1_500_000_000_123_456_789
    assert not needs_rescue(job)
    assert rescue(job) is None


def test_a_journal_that_cannot_be_understood_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "outputs.journal").write_text('["header", "x"]\n')
    with pytest.raises(OSError, match="no journal of this FanStore"):
        needs_rescue(str(tmp_path))
    assert left_behind(str(tmp_path)) is None


def test_rescue_into_a_full_directory_keeps(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with small_disk(out):
        cluster = Cluster(tmp_path)
        rank = cluster.ranks[0]

        async def work() -> None:
            rank.stage_out.give_up()
            rank.publish(b"d/large", b"1" * 2_000_000)
            rank.publish(b"small", b"2")

        killed(cluster, work)
        done = rescue(str(rank.job_directory))
        assert done is not None
        assert done.placed == ["small"]
        assert done.kept == [("d/large", os.strerror(errno.ENOSPC))]
        assert tree(Path(done.folder)) == {"d": None, "d/large": b"1" * 2_000_000}
        assert Path(done.folder) == tmp_path / "unstaged" / "job0"
        assert tree(out) == {"small": b"2"}


def test_rescue_overwrites_nothing_newer(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank, out = cluster.ranks[0], cluster.output_dir
    out.mkdir()
    (out / "older").write_text("older")

    async def work() -> None:
        rank.stage_out.give_up()
        rank.publish(b"newer", b"1")
        rank.publish(b"older", b"2")

    killed(cluster, work)
    (out / "newer").write_text("newer")
    # ctimes cannot be set: the job began, as it were, between the two files
    began = (os.stat(out / "older").st_ctime_ns + os.stat(out / "newer").st_ctime_ns) // 2
    path = rank.job_directory / "outputs.journal"
    found = read_journal(str(path))
    assert found is not None
    path.write_text(path.read_text().replace(str(found[0].started_ns), str(began)))
    done = rescue(str(rank.job_directory))
    assert done is not None
    assert done.placed == ["older"]
    assert [name for name, _ in done.kept] == ["newer"]
    assert tree(out) == {"older": b"2", "older.~1~": b"older", "newer": b"newer"}
    assert tree(Path(done.folder)) == {"newer": b"1"}


def test_rescue_of_what_was_placed_but_not_noted(tmp_path: Path) -> None:
    """The daemon was killed between the two."""
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        rank.publish(b"file", b"1")
        await settled(rank)

    killed(cluster, work)
    path = rank.job_directory / "outputs.journal"
    lines = path.read_bytes().splitlines(keepends=True)
    noted = [line for line in lines if line.startswith(b'["place"')]
    assert len(noted) == 1
    path.write_bytes(b"".join(line for line in lines if line not in noted))
    done = rescue(str(rank.job_directory))
    assert done is not None
    assert (done.placed, done.kept) == (["file"], [])
    assert tree(cluster.output_dir) == {"file": b"1"}


def test_rescue_given_up_keeps_the_rest(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        rank.stage_out.give_up()
        rank.publish(b"file", b"1")

    killed(cluster, work)
    done = rescue(str(rank.job_directory), lambda: True)
    assert done is not None
    assert [name for name, _ in done.kept] == ["file"]
    assert tree(Path(done.folder)) == {"file": b"1"}
    assert tree(cluster.output_dir) == {}


def test_random_changes_end_as_they_ended(tmp_path: Path) -> None:
    for seed in range(6):
        base = tmp_path / str(seed)
        rng = random.Random(seed)
        cluster = Cluster(base, 1 + seed % 3)
        expected: dict[str, bytes | str | None] = {}

        async def work(
            rng: random.Random = rng,
            cluster: Cluster = cluster,
            expected: dict[str, bytes | str | None] = expected,
        ) -> None:
            names = ["a", "b", "c"]
            for step in range(150):
                rank = rng.choice(cluster.ranks)
                name, other = rng.sample(names, 2)
                what = rng.choice(["file", "file", "link", "rename", "unlink", "pause"])
                if what == "file":
                    expected[name] = b"%d" % step * rng.choice([1, 1000])
                    rank.publish(name.encode(), expected[name])
                elif what == "link":
                    expected[name] = f"target{step}"
                    rank.symlink(b"target%d" % step, name.encode())
                elif what == "rename" and name in expected:
                    expected[other] = expected.pop(name)
                    rank.rename(name.encode(), other.encode())
                elif what == "unlink" and name in expected:
                    del expected[name]
                    rank.unlink(name.encode())
                elif what == "pause":
                    await asyncio.sleep(rng.choice([0, 0.001, 0.01]))

        summaries = run(cluster, work)
        assert tree(cluster.output_dir) == expected, seed
        assert all(s["unplaced"] == s["backups"] == [] for s in summaries)


def test_random_trees_end_as_they_ended(tmp_path: Path) -> None:
    """The same done to a plain directory."""
    for seed in range(12):
        base, plain = tmp_path / str(seed), tmp_path / f"plain{seed}"
        plain.mkdir()
        rng = random.Random(seed)
        cluster = Cluster(base, 1 + seed % 3)

        async def work(
            rng: random.Random = rng, cluster: Cluster = cluster, plain: Path = plain
        ) -> None:
            for step in range(120):
                rank = rng.choice(cluster.ranks)
                path, other = ("/".join(rng.choices("abc", k=rng.choice([1, 2, 3]))) for _ in "12")
                at, to = os.fsencode(path), os.fsencode(other)
                with contextlib.suppress(OSError):
                    what = rng.choice(["mkdir", "mkdir", "file", "file", "rename", "remove", "-"])
                    if what == "mkdir":
                        (plain / path).mkdir()
                        rank.mkdir(at)
                    elif what == "file":
                        (plain / path).write_bytes(b"%d" % step)
                        rank.publish(at, b"%d" % step)
                    elif what == "rename" and path != other:
                        os.rename(plain / path, plain / other)
                        rank.rename(at, to)
                    elif what == "remove":
                        (os.rmdir if (plain / path).is_dir() else os.unlink)(plain / path)
                        rank.unlink(at)
                    elif what == "-":
                        await asyncio.sleep(rng.choice([0, 0.01, 0.1]))

        summaries = run(cluster, work)
        assert tree(cluster.output_dir) == tree(plain), seed
        assert all(s["unplaced"] == s["backups"] == [] for s in summaries), seed


def test_a_file_comes_before_the_directory_that_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory replaces a file of the job's, and is another rank's to see to."""
    cluster = Cluster(tmp_path, 3)
    rank, other, third = cluster.ranks
    late = asyncio.Event()
    make_so = StageOut._make_so

    async def delayed(self: StageOut, place: Place) -> Reconciled:
        if self is rank.stage_out:
            await late.wait()
        return await make_so(self, place)

    async def work() -> None:
        third.publish(b"b", b"a file")
        third.mkdir(b"was")
        third.publish(b"was/inside", b"i")
        await settled(third)
        monkeypatch.setattr(StageOut, "_make_so", delayed)
        rank.unlink(b"b")
        rank.rename(b"was", b"b")
        other.publish(b"b/a", b"deep")
        await settled(other)
        assert tree(cluster.output_dir).get("b/a") == b"deep"
        late.set()

    summaries = run(cluster, work)
    assert tree(cluster.output_dir) == {"b": None, "b/a": b"deep", "b/inside": b"i"}
    assert all(s["unplaced"] == s["backups"] == [] for s in summaries)


# -- Small things -------------------------------------------------------------------------------


def test_folders_of_mounts() -> None:
    assert folders_of(["/a/b"]) == (b"",)
    assert folders_of(["/a/x", "/b/x", "/c/y/", "/b/x-2"]) == (b"x", b"x-2", b"y", b"x-2-2")


def test_problems_known_beforehand(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir(mode=0o555)
    assert problem_of(str(tmp_path / "new")) == ""
    assert problem_of(str(tmp_path)) == ""
    assert "is not a directory" in problem_of(str(tmp_path / "file"))
    assert "does not exist" in problem_of(str(tmp_path / "no/such"))
    assert "is not a directory" in problem_of(str(tmp_path / "file/out"))
    if os.getuid() != 0:
        assert "not writable" in problem_of(str(tmp_path / "closed"))
        assert "not writable" in problem_of(str(tmp_path / "closed/new"))


def test_backups_never_meet(tmp_path: Path) -> None:
    names = []
    for number in range(3):
        (tmp_path / "name").write_text(str(number))
        path = os.fsencode(tmp_path / "name")
        names.append(os.path.basename(back_up(path, path)))
    assert names == [b"name.~1~", b"name.~2~", b"name.~3~"]


def test_rescue_follows_no_link(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]
    victim = tmp_path / "victim"
    victim.mkdir()

    async def work() -> None:
        rank.symlink(os.fsencode(victim), b"a")
        await settled(rank)
        rank.stage_out.give_up()
        rank.unlink(b"a")
        rank.mkdir(b"a")
        rank.publish(b"a/x", b"1")

    killed(cluster, work)
    found = rescue(str(rank.job_directory))
    assert found is not None and found.placed == ["a/x"]
    assert tree(victim) == {}
    assert (cluster.output_dir / "a/x").read_bytes() == b"1"


@pytest.mark.parametrize("state", ["old", "foreign", "unwritable"])
def test_a_link_that_is_not_rescued_is_kept(tmp_path: Path, state: str) -> None:
    cluster = Cluster(tmp_path)
    rank, out = cluster.ranks[0], cluster.output_dir

    async def work() -> None:
        if state == "old":
            rank.symlink(b"1", b"latest")
        rank.publish(b"other")
        await settled(rank)
        rank.stage_out.give_up()
        if state == "old":
            rank.unlink(b"latest")
        rank.symlink(b"2", b"latest")

    killed(cluster, work)
    if state == "foreign":
        (out / "latest").write_bytes(b"theirs")
    elif state == "unwritable":
        shutil.rmtree(out)
        out.write_bytes(b"")
    found = rescue(str(rank.job_directory))
    assert found is not None and [name for name, _ in found.kept] == ["latest"]
    assert os.readlink(os.path.join(found.folder, "latest")) == "2"
    if state == "foreign":
        assert (out / "latest").read_bytes() == b"theirs"
