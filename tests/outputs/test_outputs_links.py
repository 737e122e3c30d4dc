"""Outputs that lie on the file system of the output directory: at the end a second name does."""

from __future__ import annotations

import asyncio
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from output_ranks import Cluster
from output_staging import WAIT_S, ended, run, settled, tree

from fanstore.outputs.model.entries import split
from fanstore.outputs.objects import files
from fanstore.outputs.stageout import supply

# A default ACL: a version, then tag, permissions and id of each entry (acl(5), linux/posix_acl.h).
ACL_ENTRIES = ((0x01, 7, -1), (0x02, 7, 1234), (0x04, 5, -1), (0x10, 7, -1), (0x20, 5, -1))
ACL = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in ACL_ENTRIES)


def inode_of_object(cluster: Cluster, name: bytes) -> int:
    place = split(0, name)
    entry = cluster.ranks[0].tables_at(place).get(place)
    assert entry is not None
    return os.lstat(cluster.ranks[0].objects.path(entry.object_id)).st_ino


def run_late(cluster: Cluster, work: Callable[[], None]) -> dict[str, Any]:
    """Stages out what `work` does when the programs have ended; the summary."""

    async def whole() -> dict[str, Any]:
        cluster.start()
        await cluster.ranks[0].stage_out.flush()
        work()
        try:
            (summary,) = await asyncio.wait_for(cluster.flush(), WAIT_S)
        finally:
            cluster.close()
        return summary

    return asyncio.run(whole())


def is_link(cluster: Cluster, name: str) -> bool:
    """Whether what is in the output directory is the object itself."""
    return (cluster.output_dir / name).stat().st_ino == inode_of_object(cluster, name.encode())


@pytest.mark.parametrize("small", [True, False])
def test_files_get_a_second_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    monkeypatch.setattr(supply, "SMALL_BYTES", 1 << 20 if small else 0)
    cluster = Cluster(tmp_path, beside=True)
    content = {f"f{n}": b"%d" % n * n for n in range(300)}

    def work() -> None:
        for number, (name, data) in enumerate(content.items()):
            mode = 0o400 + number % 64
            cluster.ranks[0].publish(name.encode(), data, mode, -1_500_000_001 - number)

    summary = run_late(cluster, work)
    assert tree(cluster.output_dir) == content
    for number, name in enumerate(content):
        found = os.stat(cluster.output_dir / name)
        assert stat.S_IMODE(found.st_mode) == 0o400 + number % 64
        assert found.st_mtime_ns == -1_500_000_001 - number
        assert is_link(cluster, name)
    assert (summary["staged"], summary["unplaced"]) == (len(content), [])
    assert summary["copied_bytes"] == sum(map(len, content.values()))


def test_while_programs_run_files_are_copied(tmp_path: Path) -> None:
    """Somebody may change what is in the output directory, and programs go on to read theirs."""
    cluster = Cluster(tmp_path, beside=True)

    async def work() -> None:
        cluster.ranks[0].publish(b"early", b"1")
        await settled(cluster.ranks[0])
        cluster.ranks[0].publish(b"late", b"2")

    run(cluster, work)
    assert tree(cluster.output_dir) == {"early": b"1", "late": b"2"}
    assert not is_link(cluster, "early")


def test_a_copy_under_way_ends_for_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, beside=True)
    rank, data = cluster.ranks[0], b"data" * 1000
    began, go_on = threading.Event(), threading.Event()
    filled = files._filled

    def slowly(fd: int) -> Iterator[tuple[int, int]]:
        began.set()
        assert go_on.wait(WAIT_S)
        yield from filled(fd)

    monkeypatch.setattr(files, "_filled", slowly)
    monkeypatch.setattr(supply, "SMALL_BYTES", 0)

    async def whole() -> dict[str, Any]:
        cluster.start()
        rank.publish(b"file", data)
        await asyncio.to_thread(began.wait, WAIT_S)
        flush = asyncio.ensure_future(rank.stage_out.flush())
        await asyncio.sleep(0)
        go_on.set()
        return await ended(cluster, flush)

    summary = asyncio.run(whole())
    assert tree(cluster.output_dir) == {"file": data}
    assert is_link(cluster, "file")
    assert summary["copied_bytes"] == len(data)


def test_while_programs_of_other_ranks_run_files_are_copied(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 2, beside=True)
    rank, other = cluster.ranks

    async def whole() -> None:
        cluster.start()
        await rank.stage_out.flush()
        rank.publish(b"early", b"1")
        await rank.stage_out.flush()
        assert not is_link(cluster, "early")
        await other.stage_out.flush()
        rank.publish(b"late", b"2")
        await cluster.flush()
        assert is_link(cluster, "late")
        cluster.close()

    asyncio.run(asyncio.wait_for(whole(), WAIT_S))


@pytest.mark.parametrize("where", ["out", "jobs/job0/objects"])
def test_files_with_acls_are_copied(tmp_path: Path, where: str) -> None:
    cluster = Cluster(tmp_path, beside=True)
    cluster.output_dir.mkdir()
    try:
        os.setxattr(tmp_path / where, "system.posix_acl_default", ACL)
    except OSError as error:
        pytest.skip(f"no ACLs here: {error.strerror}")
    run_late(cluster, lambda: cluster.ranks[0].publish(b"file", b"1", 0o640))
    assert not is_link(cluster, "file")


def test_where_no_link_can_be_made_files_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The most names that a file may have are given already."""
    monkeypatch.setattr(supply, "SMALL_BYTES", 3)
    cluster = Cluster(tmp_path, beside=True)
    content = {"small": b"1", "large": b"large"}

    def work() -> None:
        for name, data in content.items():
            entry = cluster.ranks[0].publish(name.encode(), data)
            path, number = cluster.ranks[0].objects.path(entry.object_id), 0
            try:
                while number < 1 << 17:
                    os.link(path, tmp_path / f"{name}.{number}")
                    number += 1
            except OSError:
                continue
            pytest.skip("files may have many names here")

    run_late(cluster, work)
    assert tree(cluster.output_dir) == content
    assert not is_link(cluster, "small")


def test_times_that_a_program_sets_after_that_are_no_strangers(tmp_path: Path) -> None:
    """One that outlives its job's command: its file has them in the output directory at once, and
    is still the job's own, which goes when it is renamed."""
    cluster = Cluster(tmp_path, beside=True)
    rank = cluster.ranks[0]

    async def whole() -> dict[str, Any]:
        cluster.start()
        await rank.stage_out.flush()
        rank.publish(b"old", b"data")
        await asyncio.wait_for(rank.stage_out.flush(), WAIT_S)
        assert is_link(cluster, "old")
        rank.set_time(b"old", 1_000_000_000)
        await settled(rank)
        rank.rename(b"old", b"new")
        try:
            (summary,) = await asyncio.wait_for(cluster.flush(), WAIT_S)
        finally:
            cluster.close()
        return summary

    summary = asyncio.run(whole())
    assert tree(cluster.output_dir) == {"new": b"data"}
    assert (cluster.output_dir / "new").stat().st_mtime_ns == 1_000_000_000
    assert summary["backups"] == []
