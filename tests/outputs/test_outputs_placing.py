"""How outputs come into the output directory: several at a time, yet in order; what is synced when;
what the report and the journal say when a disk does not take it."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import output_ranks
import pytest
from output_ranks import Cluster, FakePeers
from output_staging import names_in, run, settled, tree
from small_disk import small_disk
from until import until

from fanstore.outputs.model.entries import split
from fanstore.outputs.stageout import copying, placing
from fanstore.outputs.stageout.journal import Header, Identity, Journal
from fanstore.outputs.stageout.placing import OutputDirectory

SECOND_NS = 10**9


def test_small_files_are_synced_together_and_named_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path)
    together = threading.Barrier(4)
    named: list[bytes] = []
    sync, put = os.fsync, placing.name_together

    def sync_with_others(fd: int) -> None:
        together.wait(30)
        sync(fd)

    def noted(pairs: Sequence[tuple[bytes, bytes]], ended: Any) -> list[Identity]:
        named.extend(os.path.basename(new) for _, new in pairs)
        return put(pairs, ended)

    monkeypatch.setattr(placing, "name_together", noted)
    files = [b"f%02d" % n for n in range(12)]

    async def work() -> None:
        monkeypatch.setattr(copying.os, "fsync", sync_with_others)
        for name in files:
            cluster.ranks[0].publish(name, name * 100)
        await settled(cluster.ranks[0])
        monkeypatch.setattr(copying.os, "fsync", sync)

    monkeypatch.setattr(placing, "_SYNC_EACH_S", 1000.0)
    run(cluster, work)
    assert named == files
    assert tree(cluster.output_dir) == {os.fsdecode(name): name * 100 for name in files}


def test_what_goes_while_it_is_copied_early_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path)
    rank, sync = cluster.ranks[0], os.fsync
    reached, go_on = threading.Semaphore(0), threading.Event()

    def stay(fd: int) -> None:
        reached.release()
        go_on.wait(30)
        sync(fd)

    async def work() -> None:
        monkeypatch.setattr(copying.os, "fsync", stay)
        for name in (b"a", b"b", b"c"):
            rank.publish(name, b"old")
        await asyncio.get_running_loop().run_in_executor(None, reached.acquire)
        rank.unlink(b"b")
        rank.publish(b"c", b"new")
        rank.chmod(b"a", 0o600)
        go_on.set()
        await settled(rank)
        await until(lambda: not list(cluster.output_dir.glob(".fanstore-*/*")))

    run(cluster, work)
    assert tree(cluster.output_dir) == {"a": b"old", "c": b"new"}
    assert os.stat(cluster.output_dir / "a").st_mode & 0o777 == 0o600


def test_directories_are_synced_once_for_many_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path)
    synced: list[bytes] = []
    monkeypatch.setattr(placing, "sync_directories", synced.extend)
    monkeypatch.setattr(placing, "_SYNC_EACH_S", 1000.0)

    async def work() -> None:
        cluster.ranks[0].mkdir(b"d")
        for n in range(20):
            cluster.ranks[0].publish(b"d/%d" % n, b"x")

    run(cluster, work)
    root = os.fsencode(cluster.output_dir)
    assert sorted(synced) == [root, root + b"/d"]


def test_directories_keep_their_times(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 2)
    rank = cluster.ranks[0]

    async def work() -> None:
        for n in range(4):  # of both homes
            name = b"d%d" % n
            rank.mkdir(name)
            rank.publish(name + b"/file", b"x")
            await settled(rank)
            cluster.ranks[0].tables_of(name)._tables[0, name].mtime_ns = n * SECOND_NS + 7

    run(cluster, work)
    for n in range(4):
        assert os.stat(cluster.output_dir / f"d{n}").st_mtime_ns == n * SECOND_NS + 7


def test_what_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_ranks, "WAIT_S", 0.01)
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    def refuse(*_: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    async def work() -> None:
        rank.publish(b"gone", b"x")
        await settled(rank)
        monkeypatch.setattr(OutputDirectory, "remove_file", refuse)
        rank.unlink(b"gone")

    (summary,) = run(cluster, work)
    assert summary["unplaced"] == [("gone", "is there still: Permission denied")]
    assert summary["unplaced_count"] == 1


def test_names_are_written_down_on_a_full_disk(tmp_path: Path) -> None:
    """Else a rescue would take what is published for half written, and remove it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk):
        path = str(disk / "journal")
        journal = Journal(path, Header("job", b"/out", (b"",), 0o022, 1))
        with pytest.raises(OSError), open(disk / "rest", "wb", buffering=0) as stream:
            while stream.write(bytes(4096)):
                pass
        names = {number: split(0, b"d/%d" % number) for number in range(1, 500)}
        for number, name in names.items():
            journal.name(number, name, 10)
        journal.close()
        assert names_in(path) == names


def test_the_account_asks_no_other_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have accounted are gone: who waits for them waits until they count as lost."""
    cluster = Cluster(tmp_path, 3)
    asked: list[str] = []

    async def call(peers: FakePeers, rank: int, name: str, *_: object) -> None:
        asked.append(f"{peers.rank} asks {rank}: {name}")

    async def whole() -> None:
        cluster.start()
        for n in range(6):
            cluster.ranks[n % 3].mkdir(b"d%d" % n)
            cluster.ranks[n % 3].publish(b"d%d/file" % n, b"x")
        await asyncio.gather(*(rank.stage_out.flush() for rank in cluster.ranks))
        monkeypatch.setattr(FakePeers, "call", call)
        for rank in cluster.ranks:
            await cluster.account(rank)

    asyncio.run(whole())
    cluster.close()
    assert asked == []
