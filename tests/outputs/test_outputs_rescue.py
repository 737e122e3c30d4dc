"""Rescue: the daemon is killed, its process's memory gone; its journal says what to place."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from object_files import make_object
from output_ranks import Cluster
from output_staging import names_in, run, settled, tree
from small_disk import small_disk

from fanstore.outputs.model.entries import split
from fanstore.outputs.stageout.journal import Header, Identity, Journal, read_journal
from fanstore.outputs.stageout.rescue import left_behind, needs_rescue, rescue


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
        stream.write(b'\n["name", 7, [0, "cut o')
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


def test_rescue_in_the_order_of_the_programs(tmp_path: Path) -> None:
    """A file that is renamed comes after what was written before that, as in a job that lives."""
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        rank.stage_out.give_up()
        rank.publish(b"latest.tmp", b"step 1")
        rank.publish(b"step 1", b"state")
        rank.rename(b"latest.tmp", b"latest")

    killed(cluster, work)
    done = rescue(str(rank.job_directory))
    assert done is not None and done.placed == ["step 1", "latest"]


@pytest.mark.parametrize("count", [1, 3])
def test_rescue_of_what_was_renamed_with_its_directory(tmp_path: Path, count: int) -> None:
    """Nothing is made under the names of before, whichever ranks kept them."""
    cluster = Cluster(tmp_path, count)
    rank = cluster.ranks[0]

    async def work() -> None:
        for each in cluster.ranks:
            each.stage_out.give_up()
        for name in (b"tmp", b"tmp/a", b"tmp/a/b", b"tmp/a/b/empty"):
            rank.mkdir(name)
        rank.symlink(b"target", b"tmp/a/link")
        rank.publish(b"tmp/a/b/file", b"1")
        rank.rename(b"tmp", b"step")
        rank.mkdir(b"tmp")

    killed(cluster, work)
    for each in cluster.ranks:
        rescue(str(each.job_directory))
    assert tree(cluster.output_dir) == {
        "tmp": None, "step": None, "step/a": None, "step/a/b": None, "step/a/b/empty": None,
        "step/a/link": "target", "step/a/b/file": b"1",
    }  # fmt: skip


def test_a_deep_directory_is_renamed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]
    paths = [b"/".join([b"d"] * depth) for depth in range(1, 500)]

    async def work() -> None:
        rank.stage_out.give_up()
        for path in paths:
            rank.mkdir(path)
        rank.rename(b"d", b"moved")

    killed(cluster, work)
    rescue(str(rank.job_directory))
    assert set(tree(cluster.output_dir)) == {"moved" + os.fsdecode(path)[1:] for path in paths}


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


def test_rescue_of_what_was_placed_under_a_new_name(tmp_path: Path) -> None:
    """The daemon was killed before it removed the old one."""
    job, out = tmp_path / "jobs/job", tmp_path / "out"
    (job / "objects").mkdir(parents=True)
    out.mkdir()
    make_object(job, 1, "text")
    (out / "old").write_text("text")
    os.link(out / "old", out / "new")
    header = Header("job", os.fsencode(out), (b"",), 0o022, 0)
    journal = Journal(str(job / "outputs.journal"), header)
    for name in (b"old", b"new"):
        journal.name(1, split(0, name), 4)
        journal.place(1, split(0, name), Identity.of(os.stat(out / "new")))
    journal.close()
    assert needs_rescue(str(job))
    done = rescue(str(job))
    assert done is not None and (done.placed, done.kept) == ([], [])
    assert tree(out) == {"new": b"text"}


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
    journal.name(1, split(0, b"cut off"), 1)
    monkeypatch.undo()
    journal.name(2, split(0, b"whole"), 1)
    journal.close()
    assert names_in(path) == {2: split(0, b"whole")}


def test_journal_lines_that_are_noted_together_are_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path), Header("job", b"/out", (b"",), 0o022, 0))
    written: list[bytes] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: written.append(data) or write(fd, data))
    names = {number: split(0, b"directory/" * 400 + b"%d" % number) for number in range(1, 41)}
    with journal.together():
        for number, name in names.items():
            journal.name(number, name, 1)
        journal.drop(1)
    with journal.together():
        pass
    journal.name(41, split(0, b"alone"), 1)
    journal.close()
    assert len(written) == 4  # 160 KB by 64 KiB and a line, and the last one
    del names[1]
    assert names_in(path) == {**names, 41: split(0, b"alone")}
