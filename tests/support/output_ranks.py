"""Ranks of outputs in one event loop, without clients: their tables, objects and stage-out."""

from __future__ import annotations

import asyncio
import errno
import inspect
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fanstore.outputs.model.entries import (
    OBJECT_RANK_SHIFT,
    Attr,
    Changes,
    Entry,
    Place,
    Slot,
    failure,
    file_of,
    home_rank_of,
    split,
)
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.stageout.journal import Header, Journal
from fanstore.outputs.stageout.placing import OutputDirectory
from fanstore.outputs.stageout.stageout import StageOut

WAIT_S = 4.0  # the default of the setting


class FakePeers:
    """Calls between the ranks of one loop, in order; a lost rank answers nothing."""

    def __init__(self, rank: int, net: list[FakePeers]) -> None:
        self.rank = rank
        self._net = net
        self._served: dict[str, Callable[..., Any]] = {}
        self._on_lost: list[Callable[[int], None]] = []
        self.lost: set[int] = set()

    @property
    def world_size(self) -> int:
        return len(self._net)

    def serve(self, name: str, function: Callable[..., Any]) -> None:
        self._served[name] = function

    async def call(self, rank: int, name: str, *args: Any) -> Any:
        if rank != self.rank:
            await asyncio.sleep(0)
        if rank in self.lost or self.rank in self._net[rank].lost:
            raise failure(errno.EIO)
        result = self._net[rank]._served[name](self.rank, *args)
        return await result if inspect.isawaitable(result) else result

    def tell(self, rank: int, name: str, *args: Any) -> None:
        if rank not in self.lost:
            result = self._net[rank]._served[name](self.rank, *args)
            assert not inspect.isawaitable(result)

    def is_lost(self, rank: int) -> bool:
        return rank in self.lost

    def on_lost(self, callback: Callable[[int], None]) -> None:
        self._on_lost.append(callback)

    def lose(self, rank: int) -> None:
        """From now on that rank is no more."""
        self.lost.add(rank)
        for callback in self._on_lost:
            callback(rank)


class FakeObjects:
    """Real files in a directory."""

    def __init__(self, directory: Path, rank: int) -> None:
        self._directory = os.fsencode(directory)
        self._last = rank << OBJECT_RANK_SHIFT
        directory.mkdir()

    def new_id(self) -> int:
        self._last += 1
        return self._last

    def path(self, object_id: int) -> bytes:
        path = os.path.join(self._directory, file_of(object_id))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def attr(self, object_id: int) -> Attr:
        return Attr.of(os.lstat(self.path(object_id)))


class OtherDisk(OutputDirectory):
    """An output directory on another file system, as that of most jobs is."""

    def takes_link(self, path: bytes) -> bool:
        return False


class Rank:
    """One rank; what a program of it does is done at once."""

    def __init__(self, cluster: Cluster, rank: int, job_directory: Path) -> None:
        self._cluster = cluster
        self.peers = cluster.net[rank]
        self.name_tables = NameTables()
        job_directory.mkdir(parents=True)
        self.job_directory = job_directory
        self.objects: Any = FakeObjects(job_directory / "objects", rank)
        job_id, root = job_directory.name, os.fsencode(cluster.output_dir)
        header = Header(job_id, root, cluster.folders, 0o022, time.time_ns())
        self.directory = (OutputDirectory if cluster.beside else OtherDisk)(header)
        self.journal = Journal(str(job_directory / "outputs.journal"), header)
        self.peers.serve("home.entry", lambda _, place: self.name_tables.get(place))
        self.peers.serve("home.changed_ns", lambda _, *key: self.name_tables.changed_ns(*key))
        self.stage_out = StageOut(
            self.peers, self.name_tables, self.objects, self.directory, self.journal, WAIT_S
        )

    def tables_at(self, place: Place) -> NameTables:
        rank = home_rank_of(place.mount, place.directory, self.peers.world_size)
        return self._cluster.ranks[rank].name_tables

    def tables_of(self, path: bytes) -> NameTables:
        """That of the names in a directory."""
        return self.tables_at(Place(0, path, b"x"))

    def _replace(self, place: Place, entry: Entry | None) -> None:
        tables = self.tables_at(place)
        old = tables.get(place)
        tables.put(place, Slot(entry))
        if old is not None and old.is_file:
            owner = self._cluster.ranks[old.owner]
            os.unlink(owner.objects.path(old.object_id))
            owner.stage_out.discarded(old.object_id)

    def publish(
        self, path: bytes, data: bytes = b"", mode: int = 0o644, mtime_ns: int | None = None
    ) -> Entry:
        """A program has written a file."""
        place, object_id = split(0, path), self.objects.new_id()
        with open(self.objects.path(object_id), "wb") as stream:
            stream.write(data)
        os.chmod(self.objects.path(object_id), mode)
        if mtime_ns is not None:
            os.utime(self.objects.path(object_id), ns=(mtime_ns, mtime_ns))
        entry = Entry(object_id, self.objects.attr(object_id))
        self._replace(place, entry)
        self.stage_out.published(place, entry)
        return entry

    def _new(self, path: bytes, kind: int, mode: int, target: bytes = b"") -> None:
        now = time.time_ns()
        attr = Attr(kind | mode, os.getuid(), os.getgid(), 0, 0, now, now, now)
        self._replace(split(0, path), Entry(self.objects.new_id(), attr, target))
        self.stage_out.changed(split(0, path))

    def mkdir(self, path: bytes, mode: int = 0o755) -> None:
        self._new(path, stat.S_IFDIR, mode)

    def symlink(self, target: bytes, path: bytes) -> None:
        self._new(path, stat.S_IFLNK, 0o777, target)

    def unlink(self, path: bytes) -> None:
        """Or rmdir."""
        self._replace(split(0, path), None)
        self.stage_out.changed(split(0, path))

    def chmod(self, path: bytes, mode: int) -> None:
        place = split(0, path)
        tables = self.tables_at(place)
        entry = tables.get(place)
        assert entry is not None
        tables.change(place, entry.object_id, Changes(mode=mode))
        self.stage_out.changed(place)

    def set_time(self, path: bytes, mtime_ns: int) -> None:
        """Of a file of this rank."""
        place = split(0, path)
        entry = self.tables_at(place).get(place)
        assert entry is not None
        os.utime(self.objects.path(entry.object_id), ns=(mtime_ns, mtime_ns))
        self.tables_at(place).change(place, entry.object_id, Changes(mtime_ns=mtime_ns))
        self.stage_out.changed(place)

    def rename(self, old: bytes, new: bytes) -> None:
        """Of a file, or of a directory with all below."""
        source, target = split(0, old), split(0, new)
        entry = self.tables_at(source).get(source)
        assert entry is not None
        self._replace(target, entry)
        self.tables_at(source).put(source, Slot())
        if entry.is_directory:
            for rank in self._cluster.ranks:
                for found in list(rank.name_tables.below(0, old)):
                    names = rank.name_tables._tables.pop((0, found)).names
                    for name, slot in names.items():
                        place = Place(0, new + found[len(old) :], name)
                        self.tables_at(place).put(place, slot)
        if entry.is_directory:
            self.stage_out.moved(target)
        else:
            self.stage_out.changed(target)
        self.stage_out.changed(source)


class Cluster:
    """Some ranks and an output directory; also as many jobs as one likes into the same one."""

    def __init__(
        self,
        base: Path,
        count: int = 1,
        output_dir: Path | None = None,
        folders: tuple[bytes, ...] = (b"",),
        job: str = "job",
        beside: bool = False,
    ) -> None:
        """beside: stage-out knows that the output directory lies on the objects' file system."""
        self.beside = beside
        self.output_dir = output_dir or base / "out"
        self.folders = folders
        self.net: list[FakePeers] = []
        self.net += [FakePeers(rank, self.net) for rank in range(count)]
        self.ranks: list[Rank] = []
        for rank in range(count):
            self.ranks.append(Rank(self, rank, base / "jobs" / f"{job}{rank}"))

    def start(self) -> None:
        """In the loop."""
        for rank in self.ranks:
            rank.stage_out.start()

    async def flush(self) -> list[dict[str, Any]]:
        """The end of all ranks that are not lost: what their summaries say."""
        lost = set().union(*(peers.lost for peers in self.net))
        alive = [rank for rank in self.ranks if rank.peers.rank not in lost]
        await asyncio.gather(*(rank.stage_out.flush() for rank in alive))
        return [await self.account(rank) for rank in alive]

    async def account(self, rank: Rank) -> dict[str, Any]:
        base = rank.job_directory.parent.parent
        return await rank.stage_out.account(str(base / "unstaged" / rank.job_directory.name))

    def close(self) -> None:
        for rank in self.ranks:
            rank.stage_out.close()
