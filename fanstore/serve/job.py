"""One job's resources on one node: opened in order, closed in reverse, whatever was reached."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass, field
from typing import Any

from fanstore import _native
from fanstore.dataset import Dataset, open_dataset
from fanstore.errors import SHOWN_MAX, UsageError
from fanstore.load.base import Base
from fanstore.load.codecs import check_codecs
from fanstore.load.stage import Stager, StageReport, check_room
from fanstore.load.staged import StagedDirectory
from fanstore.load.stopping import Stop
from fanstore.placement import replica_ranks
from fanstore.progress import progress_of
from fanstore.serve.drift import drifted_files
from fanstore.serve.job_directory import JobDirectory, clean_up, sweep
from fanstore.serve.job_plan import JobPlan
from fanstore.serve.node import Node, default_cache_bytes
from fanstore.serve.prefix import Prefix, PrefixHold, check_prefixes, default_prefix, spell
from fanstore.serve.protocol import listen
from fanstore.serve.segment import MountEntry, mark_ended, read_counters, write_segment
from fanstore.world import World

_DEVICE_MAJOR = 0xFA5


@dataclass
class ServedDataset:
    """A dataset of the job with what has been made for it so far."""

    dataset: Dataset
    prefix: Prefix
    hold: PrefixHold
    staged: StagedDirectory | None
    index_path: str = ""
    report: StageReport = field(default_factory=StageReport)

    def damaged_names(self) -> list[str]:
        """The damaged files, by name under the prefix; at most SHOWN_MAX."""
        ids = sorted(record for ids in self.report.damaged.values() for record in ids)[:SHOWN_MAX]
        return [os.fsdecode(self.dataset.relpath(record)) for record in ids]


def device_number(dataset_id: str) -> int:
    """st_dev of a dataset's files: the same in every run and on every node."""
    return os.makedev(_DEVICE_MAJOR, int(dataset_id[:5], 16))


class Job:
    """Opens and closes what one job needs. `close` accepts a half-opened job."""

    def __init__(self, plan: JobPlan, stop: Stop) -> None:
        self.plan = plan
        self.base = Base(plan.local.path)
        self.directory = JobDirectory(self.base)
        self.served: list[ServedDataset] = []
        self.warnings: list[str] = []
        self.started_s = time.time()
        self._stop = stop
        self.world = World()
        self.node: Node | None = None
        self._serving = False
        self._finished: dict[str, Any] = {}
        self._preload = ""
        self._entered = False
        self._staged: dict[str, StagedDirectory] = {}

    def open(self, world: World) -> None:
        """Stages and publishes, with the other ranks of `world`. Raises FanstoreError or OSError;
        `close` must follow."""
        self.world = world
        datasets = [(self._open_dataset(path), mount) for path, mount in self.plan.datasets]
        self._check(datasets)
        with self.base.locked(self._stop.check):
            self._entered = True
            self._hold()
        self._stage()
        self._publish()

    def _open_dataset(self, path: str) -> Dataset:
        dataset = open_dataset(path, verify=self.plan.settings.in_place)
        check_codecs(dataset.name, int(dataset.header["codec_mask"]))
        return dataset

    def _check(self, datasets: list[tuple[Dataset, str | None]]) -> None:
        limit = int(_native.lib.FAN_JOB_MOUNTS_MAX)
        if len(datasets) > limit:
            raise UsageError(f"at most {limit} datasets in one job")
        for dataset, mount in datasets:
            prefix = spell(default_prefix(dataset.name) if mount is None else mount)
            hold = PrefixHold(self.base, prefix.path)
            self.served.append(ServedDataset(dataset, prefix, hold, self._staged_of(dataset)))
        check_prefixes([item.prefix for item in self.served], self.base)

    def _staged_of(self, dataset: Dataset) -> StagedDirectory | None:
        if self.plan.settings.in_place:
            return None
        made = StagedDirectory(self.base, dataset.dataset_id)
        return self._staged.setdefault(dataset.dataset_id, made)

    def _hold(self) -> None:
        """Takes every name of the job, leftovers of others removed first."""
        self.directory.make()
        for staged in self._staged.values():
            staged.hold()
        self.warnings += [f"left in an old mount prefix: {name}" for name in sweep(self.base)]
        for item in self.served:
            item.hold.hold()

    def _stage(self) -> None:
        settings = self.plan.settings
        self.base.empty_trash()
        with progress_of("staging", quiet=settings.quiet) as progress:
            stagers = [Stager(item.dataset, progress, self._stop) for item in self.served]
            if settings.in_place:
                progress.expect(sum(s.total_bytes() for s in stagers) if settings.verify else 0)
            else:
                needed = self._missing(stagers)
                check_room(self.plan.local, needed)
                progress.expect(sum(amount for _, amount in needed))
            for item, stager in zip(self.served, stagers, strict=True):
                self._stage_one(item, stager)

    def _missing(self, stagers: list[Stager]) -> list[tuple[str, int]]:
        """(dataset, bytes to copy), each dataset once."""
        missing = {
            item.dataset.dataset_id: (item.dataset.name, stager.missing_bytes(item.staged))
            for item, stager in zip(self.served, stagers, strict=True)
            if item.staged is not None
        }
        return list(missing.values())

    def _stage_one(self, item: ServedDataset, stager: Stager) -> None:
        settings = self.plan.settings
        if item.staged is None:
            item.index_path = os.path.abspath(item.dataset.index_path)
            item.report = stager.check_in_place(settings.stage_threads, settings.verify)
        else:
            item.index_path = stager.stage_index(item.staged)
            threads, verify = settings.stage_threads, settings.verify
            item.report = stager.stage_packs(item.staged, threads, verify)

    def _publish(self) -> None:
        self._preload = self._preload_library()
        entries = [self._mount_entry(number, item) for number, item in enumerate(self.served)]
        rank, world_size = self.world.rank, self.world.world_size
        write_segment(self.directory.file("segment"), entries, os.getpid(), rank, world_size)
        for item in self.served:
            if not item.hold.made:
                self.warnings += drifted_files(item.dataset, item.prefix.path)
        self.directory.describe(self.about())

    def _mount_entry(self, number: int, item: ServedDataset) -> MountEntry:
        skeleton = item.prefix.path
        if not item.hold.made:
            skeleton = self.directory.file("tree", str(number))
            os.makedirs(skeleton, 0o700)
        return MountEntry(
            prefix=item.prefix.path,
            alias=item.prefix.alias,
            skeleton=skeleton,
            index_path=item.index_path,
            staged_dir=item.staged.path if item.staged else "",
            dataset_dir=os.path.realpath(item.dataset.directory),
            device=device_number(item.dataset.dataset_id),
            record_count=int(item.dataset.header["record_count"]),
            prefix_made=item.hold.made,
            places=self._places(item),
            damaged=item.report.damaged,
        )

    def _places(self, item: ServedDataset) -> list[int]:
        """Where this rank finds each pack."""
        lib = _native.lib
        if item.staged is None:
            return [int(lib.FAN_PLACE_IN_PLACE)] * item.dataset.pack_count
        return [
            int(lib.FAN_PLACE_STAGED if self.world.rank in ranks else lib.FAN_PLACE_REMOTE)
            for ranks in self._owners(item)
        ]

    def _owners(self, item: ServedDataset) -> list[tuple[int, ...]]:
        return [
            replica_ranks(pack, self.world.world_size, 1)
            for pack in range(item.dataset.pack_count)
        ]

    def serve(self) -> None:
        """Opens the block cache and answers the other ranks, where there are any."""
        if self.world.world_size == 1:
            return
        settings = self.plan.settings
        self.node = Node(
            self.directory.file("segment"),
            self.world.rank,
            self.world.world_size,
            settings.cache_bytes or default_cache_bytes(),
            settings.cache_policy,
            settings.deadline_s,
        )
        for mount, item in enumerate(self.served):
            for pack, ranks in enumerate(self._owners(item)):
                self.node.set_replicas(mount, pack, [r for r in ranks if r != self.world.rank])
        from fanstore.transport import open_transport

        transport = open_transport(self.world.comm)
        self.world.gather_all("ready to serve")
        self.node.start(transport.pointer)
        self._serving = True

    def ranks_to_serve(self) -> int:
        """How many other ranks may still read from this one, now that its command has ended."""
        return self.node.finish() if self.node is not None and self._serving else 0

    def stop_serving(self) -> bool:
        """Ends the block cache. Whether MPI may be used again: no rank was lost on the way."""
        if self.node is None or not self._serving:
            return True
        self._serving = False
        whole = self.node.stop()
        self._finished = self._node_figures()
        self.node.close()
        self.node = None
        return whole and not self._finished["lost_ranks"]

    def _node_figures(self) -> dict[str, Any]:
        if self.node is None:
            return self._finished or {"lost_ranks": [], "node": {}}
        lost = self.node.lost_ranks(self.world.world_size)
        return {"lost_ranks": lost, "node": self.node.stats()}

    def figures(self) -> dict[str, Any]:
        """What clients and the block cache have counted so far."""
        return {"counters": read_counters(self.directory.file("segment")), **self._node_figures()}

    def listener(self) -> Any:
        """The socket for clients of the daemon."""
        return listen(self.directory.path)

    def _preload_library(self) -> str:
        """The preload library under a name that LD_PRELOAD can hold."""
        path = os.fspath(_native.preload_path())
        if _separates(path):
            path = self.directory.file("libfanstore_preload.so")
            if _separates(path):
                raise UsageError(f"{path}: a path with a space or colon cannot be preloaded")
            shutil.copy(_native.preload_path(), path)
        return path

    def lock_paths(self) -> list[str]:
        """The locks that keep all of this alive."""
        paths = [self.directory.lock_path]
        paths += [staged.lock_path for staged in self._staged.values()]
        return paths + [item.hold.lock_path for item in self.served if item.hold.made]

    def about(self) -> dict[str, Any]:
        """The job for `status` and job.json; counters not included."""
        return {
            "job_id": self.directory.job_id,
            "job_directory": self.directory.path,
            "kind": self.plan.kind,
            "rank": self.world.rank,
            "world_size": self.world.world_size,
            "daemon_pid": os.getpid(),
            "preload": self._preload,
            "started_s": self.started_s,
            "datasets": [_about_dataset(item) for item in self.served],
        }

    def close(self) -> list[str]:
        """Lets go of everything and removes what nobody uses. What had to stay, by name."""
        segment = self.directory.file("segment")
        if os.path.exists(segment):
            mark_ended(segment)
        for item in self.served:
            item.hold.release()
        for staged in self._staged.values():
            staged.release(self.plan.settings.keep_staged)
        self.directory.release()
        return clean_up(self.base) if self._entered else []


def _separates(path: str) -> bool:
    return any(separator in path for separator in " :\t\n")


def _about_dataset(item: ServedDataset) -> dict[str, Any]:
    report = item.report
    return {
        "name": item.dataset.name,
        "directory": os.fspath(item.dataset.directory),
        "dataset_id": item.dataset.dataset_id,
        "mount_prefix": item.prefix.path,
        "packs": item.dataset.pack_count,
        "in_place": item.staged is None,
        "copied_packs": report.copied_packs,
        "copied_bytes": report.copied_bytes,
        "shared_bytes": report.copied_bytes,
        "received_bytes": 0,
        "reused_packs": report.reused_packs,
        "damaged_count": sum(len(ids) for ids in report.damaged.values()),
        "damaged_files": item.damaged_names(),
    }
