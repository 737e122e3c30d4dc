"""Stage-out beside what others have, and where there is no place: nothing is lost or led astray."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from output_ranks import Cluster
from output_staging import WAIT_S, ended, run, settled, tree
from small_disk import small_disk

from fanstore.outputs.objects import files
from fanstore.outputs.stageout import placing, supply
from fanstore.outputs.stageout.location import folders_of, problem_of
from fanstore.outputs.stageout.placing import back_up


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

        monkeypatch.setattr(files, "copy_bytes", no_room)
        monkeypatch.setattr(supply, "SMALL_BYTES", 0)
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
    began, go_on = threading.Event(), threading.Event()
    copy = files.copy_bytes

    def slowly(*args: Any) -> None:
        began.set()
        assert go_on.wait(WAIT_S)
        copy(*args)

    monkeypatch.setattr(files, "copy_bytes", slowly)
    monkeypatch.setattr(supply, "SMALL_BYTES", 0)  # of larger files alone the copy can be watched

    async def whole() -> dict[str, Any]:
        cluster.start()
        rank.publish(b"one", b"1" * 1000)
        rank.publish(b"two", b"2")
        flush = asyncio.ensure_future(rank.stage_out.flush())
        await asyncio.to_thread(began.wait, WAIT_S)
        rank.stage_out.give_up()
        go_on.set()
        return await ended(cluster, flush)

    summary = asyncio.run(whole())
    assert [name for name, _ in summary["unplaced"]] == ["one", "two"]
    assert tree(Path(summary["kept"])) == {"one": b"1" * 1000, "two": b"2"}


def test_given_up_where_nothing_is_there(tmp_path: Path) -> None:
    """Nothing is missing then: the job does not fail for it."""
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def whole() -> dict[str, Any]:
        cluster.start()
        await rank.stage_out.flush()
        account = asyncio.ensure_future(cluster.account(rank))
        await asyncio.sleep(0)
        rank.stage_out.give_up()
        summary = await asyncio.wait_for(account, WAIT_S)
        cluster.close()
        return summary

    assert asyncio.run(whole())["unplaced"] == []


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
