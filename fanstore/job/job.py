"""One job's resources on one node. They are opened in order, and closed in reverse, also if opening
failed halfway."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from fanstore import __version__, _native
from fanstore.buckets.address import is_address
from fanstore.buckets.patience import PACE
from fanstore.coordinate.messages import COORDINATE_SOCKET
from fanstore.coordinate.service import Service as CoordinateService
from fanstore.dataset import Dataset, device_number, open_dataset
from fanstore.errors import UsageError
from fanstore.job.agreement import agreed, check_agreement
from fanstore.job.drift import drifted_files
from fanstore.job.maps import MapServer, may_serve
from fanstore.job.neighbours import find_neighbours, packs_at, whereabouts
from fanstore.job.orders import JobOrders, begin_orders, foreseen, share_learnt
from fanstore.job.outputs import JobOutputs, check_output_dir, make_tree
from fanstore.job.plan import JobPlan
from fanstore.job.served import ServedDataset, about_dataset, traced_dataset
from fanstore.job.sources import bucket_figures, buckets_of, default_mount, open_source
from fanstore.messages.channel import bind, listen
from fanstore.messages.figures import BucketFigures, MemoryFigures, TracedJob
from fanstore.messages.job import SERVING, JobDescription, JobFigures, Status
from fanstore.messages.message import values_of
from fanstore.node.core import Node
from fanstore.node.job_directory import JobDirectory, clean_up, rescue_dead, sweep
from fanstore.node.lanes import LaneKeeper
from fanstore.node.objects import ObjectFetcher
from fanstore.node.prefix import Prefix, PrefixHold, check_prefixes, spell
from fanstore.node.segment import (
    MountEntry,
    default_lanes,
    read_counters,
    read_damaged,
    read_processes,
    write_segment,
)
from fanstore.node.server import NodeServer
from fanstore.node.trace_parts import part_path
from fanstore.node.visit import HostLock, SharedCache
from fanstore.outputs.files.location import holds_files
from fanstore.outputs.service import MountedDataset, OutputService
from fanstore.outputs.tree.dead_job import rescue_lines
from fanstore.progress import Meter, progress_of
from fanstore.staging.base import StagingFolder
from fanstore.staging.codecs import check_codecs
from fanstore.staging.crew import Crew, Stop
from fanstore.staging.index import DatasetInfo, announce
from fanstore.staging.local_dir import make_missing
from fanstore.staging.memory import left_bytes
from fanstore.staging.run import StagedDataset, check_in_place, stage_datasets
from fanstore.staging.staged import StagedDirectory, kept_words, whole_files
from fanstore.startup import World
from fanstore.watch.watching import Watching, read_stalls
from fanstore.wording import counted

if TYPE_CHECKING:
    from fanstore.buckets.bucket import Bucket


class NodeJob:
    """Opens and closes all resources of one job. `close` may be called after a failed `open`."""

    def __init__(self, plan: JobPlan, stop: Stop) -> None:
        self.plan = plan
        self.base = StagingFolder(plan.local.path)
        self.directory = JobDirectory(self.base)
        self.served: list[ServedDataset] = []
        self.warnings: list[str] = []
        self.started_s = time.time()
        self.world = World()
        self.server: NodeServer | None = None
        self.cache: SharedCache | None = None
        self._outputs: JobOutputs | None = None
        self._lanes = default_lanes(notes=plan.settings.trace != "off")
        self.lanes: LaneKeeper | None = None
        self.orders: JobOrders | None = None
        self.watching: Watching | None = None
        self.coordinations: CoordinateService | None = None
        self.maps: MapServer | None = None
        self._stop = stop
        self._preload = ""
        self._segment_fd = -1  # the segment's name may vanish: cleaners remove files on local disks
        self._entered = False
        self._fills = False
        self._crowded = False  # whether memory may be too short for the packs of this node
        self._staged: dict[str, StagedDirectory] = {}
        self._buckets: dict[int, Bucket] = {}  # by mount

    def open(self, world: World) -> None:
        """Stages the datasets and publishes the segment, together with the other ranks of `world`.
        Raises FanstoreError or OSError; in any case, call `close` afterwards."""
        self.world = world
        rates = (self.plan.settings.bucket_requests_per_s, self.plan.settings.bucket_bytes_per_s)
        PACE.limit(*((rate or math.inf) / world.world_size for rate in rates))
        check_agreement(world.gather_all(agreed(self.plan)), world.rank)
        self.watching = Watching(world, self.plan.settings, self.directory)
        prefixes = self._choose_prefixes()
        infos = announce(world, [path for path, _ in self.plan.datasets], self._open_index)
        self.warnings += [info.note for info in infos if info.note and world.rank == 0]
        for info, prefix in zip(infos, prefixes, strict=True):
            check_codecs(info.name, info.codec_mask)
            hold = PrefixHold(self.base, prefix.path)
            self.served.append(ServedDataset(info, prefix, hold, self._staged_of(info)))
        self._buckets = buckets_of(infos)
        make_missing(self.plan.local)
        with self.base.locked(self._stop.check):
            self._entered = True
            self._hold()
        for rescued in rescue_dead(self.base, None, self._stop.is_set):
            self.warnings += rescue_lines(rescued)
        self._stage()
        self._publish()

    def _choose_prefixes(self) -> list[Prefix]:
        """Returns the prefix of each dataset. Refuses those that cannot be before a directory is
        listed, which may take long."""
        given, limit = self.plan.datasets, int(_native.lib.FAN_JOB_MOUNTS_MAX)
        if len(given) > limit:
            raise UsageError(f"at most {limit} datasets in one job: pack several into one")
        own = [default_mount(path) for path, _ in given] if self.world.rank == 0 else []
        defaults: list[str] = self.world.broadcast(own)  # all ranks take a path for the same
        pairs = zip(given, defaults, strict=True)
        prefixes = [spell(default if mount is None else mount) for (_, mount), default in pairs]
        check_prefixes(prefixes, self.base)
        paths = [prefix.path for prefix in prefixes]
        warning = check_output_dir(self.plan, paths, self.world.rank)
        if warning and self.world.rank == 0:
            self.warn(warning)
        return prefixes

    def _open_index(self, path: str) -> tuple[Dataset, str]:
        """Opens the index of a source. Meanwhile the other ranks hear that this one lives: a
        listing may take long."""
        with Crew(self.world, self._stop, 1) as crew:
            crew.submit(open_source, path, self.plan.settings, crew.check)
            opened: tuple[Dataset, str] = crew.settle()[0]
        return opened

    def _staged_of(self, info: DatasetInfo) -> StagedDirectory | None:
        if self.plan.settings.in_place:
            return None
        made = StagedDirectory(self.base, info.dataset_id, info.source)
        return self._staged.setdefault(info.dataset_id, made)

    def _hold(self) -> None:
        """Takes the locks of everything that the job uses; removes the leftovers of other jobs."""
        self.directory.make()
        for staged in self._staged.values():
            staged.hold(self.plan.settings.keep_staged)
        self.warnings += [f"left in an old mount prefix: {name}" for name in sweep(self.base)]
        for item in self.served:
            item.hold.hold()

    def _stage(self) -> None:
        settings = self.plan.settings
        self.base.empty_trash()
        quiet = settings.quiet or self.world.rank > 0
        with progress_of("staging", quiet=quiet) as progress:
            self.world.show = Meter(progress).show
            with Crew(self.world, self._stop, settings.stage_threads) as crew:
                outcomes = self._outcomes(crew)
        for item, outcome in zip(self.served, outcomes, strict=True):
            item.outcome = outcome
        if self.world.rank == 0:
            self.warnings += dict.fromkeys(each.note for each in outcomes if each.note)

    def _outcomes(self, crew: Crew) -> list[StagedDataset]:
        settings = self.plan.settings
        if settings.in_place:
            verify = self.world.rank == 0  # one check is enough: all ranks map these files
            for item in self.served:  # threads, because a large index takes long
                crew.submit(open_dataset, item.info.directory, verify)
            return [check_in_place(crew, dataset, settings.verify) for dataset in crew.settle()]
        pairs = [(item.info, item.staged) for item in self.served if item.staged is not None]
        budget = replace(self.plan.budget, tables_bytes=self._lanes.size_bytes())
        return stage_datasets(crew, pairs, self.plan.local, settings, budget, self._buckets)

    def _publish(self) -> None:
        self._preload = self._preload_library()
        damaged = self._damaged_for_all()
        near = find_neighbours(self.world, self.directory.path, self.plan.settings.neighbours)
        self._crowded = self._is_crowded(1 + len(near))
        entries = [
            self._mount_entry(number, item, damaged[number], near)
            for number, item in enumerate(self.served)
        ]
        rank, world_size = self.world.rank, self.world.world_size
        segment = self.directory.file("segment")
        theirs = [os.path.join(directory, "segment") for directory in near.values()]
        write_segment(segment, entries, os.getpid(), rank, world_size, self._lanes, theirs)
        self._segment_fd = os.open(segment, os.O_RDONLY)
        self._open_outputs()
        packed = [item for item in self.served if not item.dataset.is_planned]
        for item in packed if rank == 0 else ():  # one warning a job
            self.warnings += drifted_files(item.dataset, item.prefix.path)
        self.directory.describe(self.about())

    def _damaged_for_all(self) -> list[dict[int, list[int]]]:
        """Returns, by dataset and pack, the records that this rank can read nowhere: those that are
        damaged in its own copy, or in every copy of a remote pack. They must be marked as damaged:
        otherwise a program reads them from the shared file system, where their content is not
        checked."""
        own = [item.staging.report.damaged for item in self.served]
        of_ranks = self.world.gather_all(own)
        found = [dict(damaged) for damaged in own]
        for number, item in enumerate(self.served):
            for pack, place in enumerate(item.staging.places):
                copies = [set(of_ranks[rank][number].get(pack, ())) for rank in place.replicas]
                if place.state == _native.lib.FAN_PLACE_REMOTE and copies:
                    found[number][pack] = sorted(set.intersection(*copies))
        return found

    def _mount_entry(
        self,
        number: int,
        item: ServedDataset,
        damaged: dict[int, list[int]],
        neighbours: Collection[int],
    ) -> MountEntry:
        skeleton = item.prefix.path
        if not item.hold.made:
            skeleton = self.directory.file("tree", str(number))
            os.makedirs(skeleton, 0o700)
        return MountEntry(
            prefix=item.prefix.path,
            alias=item.prefix.alias,
            skeleton=skeleton,
            index_path=os.path.abspath(item.dataset.index_path),
            staged_dir=item.staged.path if item.staged else "",
            dataset_dir=""
            if is_address(item.info.source)
            else os.path.realpath(item.info.directory),
            outputs=make_tree(self.directory, number),
            device=device_number(item.info.dataset_id),
            record_count=item.dataset.header.record_count,
            prefix_made=item.hold.made,
            places=[place.state for place in item.staging.places],
            damaged=damaged,
            unchecked=_unchecked_packs(item.staging),
            at_neighbours=packs_at(neighbours, item.staging),
            crowded=self._crowded,
        )

    def _is_crowded(self, ranks: int) -> bool:
        """Returns whether what is on the local disk may not fit into the memory of this node, on
        which so many ranks run. Half of that is the programs'. Where it fits, it is best that the
        kernel reads much at once."""
        here_bytes = 0
        for item in self.served:
            for pack, place in enumerate(item.staging.places):
                if place.state == _native.lib.FAN_PLACE_STAGED:
                    here_bytes += item.dataset.pack_info(pack).file_bytes
            shares = item.staging.shares
            if shares is not None:
                here_bytes += shares.kept_bytes[self.world.rank] + shares.copy_bytes
        limit_bytes = self.plan.budget.available_bytes // 2
        return not self.plan.local.in_memory and here_bytes * ranks > limit_bytes

    def serve(self) -> None:
        """Begins to answer the other ranks, if there are any, and to fetch data that is not on the
        local disk or is expected to be read next, and may not be in memory."""
        elsewhere = {int(_native.lib.FAN_PLACE_REMOTE), int(_native.lib.FAN_PLACE_PARTIAL)}
        states = {place.state for item in self.served for place in item.staging.places}
        unchecked = any(item.staging.report.unchecked for item in self.served)
        is_needed = self.world.world_size > 1 or states & elsewhere or self._crowded
        if is_needed or unchecked or self.plan.order_file:
            segment = self.directory.file("segment")
            settings, cache_bytes = self.plan.settings, self.plan.budget.cache_bytes
            objects = None
            if self._buckets:
                objects = ObjectFetcher(self._buckets, settings.shared_deadline_s, self.warn)
            server = NodeServer(self.world, segment, cache_bytes, settings, objects)
            self.server = server
            for mount, item in enumerate(self.served):
                self._tell_places(server.node, mount, item.staging)
            server.start()
            tell = (lambda _: None) if settings.quiet else self.warn
            self.cache = SharedCache(server.node, cache_bytes, self._host_lock(), tell)
        self._keep_trace()
        self.orders = begin_orders(
            self.plan, self.directory, self.served, self.cache, self.world, self.warn
        )
        self._serve_outputs()

    def _host_lock(self) -> HostLock | None:
        """Returns the lock by which jobs find each other whose block caches can be one; None for a
        job that shares with no other. The cache of several ranks is divided among them, and a
        bucket may be read with other credentials."""
        settings, lib = self.plan.settings, _native.lib
        if self.world.world_size > 1 or self._buckets or not settings.neighbours:
            return None
        staged = [item.staged for item in self.served if item.staged is not None]
        try:
            here = whereabouts(self.directory.path)
        except OSError:
            return None
        ids = [item.info.dataset_id for item in self.served]
        key = (
            here.node, __version__, lib.FAN_CACHE_LAYOUT_ID, ids,
            settings.stage, settings.local_bytes, settings.cache_policy,
        )  # fmt: skip
        return HostLock(self.base, staged[0], key, self.directory.path) if staged else None

    def fill(self) -> None:
        """Begins to bring this rank's share to the local disk. Does nothing the second time."""
        for mount, item in enumerate([] if self._fills else self.served):
            shares = item.staging.shares
            if shares is not None and self.plan.settings.stage != "lazy" and len(shares.own):
                assert self.server is not None
                self.server.node.fill_ahead(mount, shares.own)
        self._fills = True

    def _tell_places(self, node: Node, mount: int, outcome: StagedDataset) -> None:
        """Tells the core what each rank has of a dataset."""
        for pack, place in enumerate(outcome.places):
            node.set_replicas(mount, pack, place.replicas)
        shares = outcome.shares
        if shares is not None:
            node.set_share(mount, shares)

    def _keep_trace(self) -> None:
        """Begins to free the lanes of ended threads, and to keep the trace if the user asked for
        it."""
        segment, file = self.directory.file("segment"), self.plan.trace_file
        kept = None
        if file:
            from fanstore.node.trace_file import KeptTrace  # late, because it loads NumPy

            datasets = [traced_dataset(item) for item in self.served]
            about = TracedJob(
                job_id=self.directory.job_id, host=os.uname().nodename,
                world_size=self.world.world_size, datasets=datasets,
            )  # fmt: skip
            part = part_path(file, self.directory.job_id)
            kept = KeptTrace(
                segment, part, self.world.rank, about, self._sampled,
                lambda: foreseen(self.orders, self.server, self._bucket_figures()),
            )  # fmt: skip
        self.lanes = LaneKeeper(segment, kept)
        self.lanes.start()

    def _sampled(self) -> dict[str, int]:
        """Returns the figures for a sample of the trace. The thread that keeps the trace calls
        it."""
        node = None if self.server is None else self.server.figures()
        outputs = None if self.outputs is None else self.outputs.figures()
        return {
            "cache_bytes": 0 if node is None else node.cache_bytes,
            "cache_used_bytes": 0 if node is None else node.resident_bytes,
            "published": 0 if outputs is None else outputs.published,
            "placed": 0 if outputs is None else outputs.staged + outputs.gone,
            "waiting_bytes": 0 if outputs is None else outputs.waiting_bytes,
        }

    def _mounts(self) -> list[MountedDataset]:
        return [MountedDataset(item.dataset, item.prefix.spellings()) for item in self.served]

    @property
    def outputs(self) -> OutputService | None:
        """The service of the outputs, or None before it exists."""
        return None if self._outputs is None else self._outputs.service

    def _open_outputs(self) -> None:
        self._outputs = JobOutputs(self.plan, self.directory, self._mounts())
        found = self._outputs.take_up(self.world, self._stop.check)
        if self.world.rank > 0:
            return
        if self.plan.settings.quiet:
            return
        if found:
            self.warn(f"goes on with {self.plan.output_dir}: {found}")
        elif holds_files(self.plan.output_dir):
            self.warn(
                f"this job does not see the files that are in {self.plan.output_dir} already; "
                "with --continue it does"
            )

    def _serve_outputs(self) -> None:
        assert self._outputs is not None
        peers = None if self.server is None else self.server.peers()
        if self.watching is not None:
            self.watching.open(self.status, self.figures, peers)
        if peers is not None:
            share_learnt(self.orders, peers, self._outputs.service.submit)
        self._outputs.start(peers)
        if self.watching is not None:
            self.watching.start(self._outputs.service.submit)
        self.coordinations = CoordinateService(
            bind(self.directory.path, COORDINATE_SOCKET), left_bytes
        )
        self.coordinations.start()
        is_needed = self.world.world_size > 1 or self._buckets
        if is_needed and self.plan.settings.maps and may_serve():
            wrapper = os.getppid() if self.plan.kind == "run" else 0
            self.maps = MapServer(self.directory.path, self._preload, wrapper)

    def warn(self, line: str) -> None:
        """Adds a line to print once, at the start or the end of the job. May be called from any
        thread."""
        if line not in self.warnings:
            self.warnings.append(line)

    def stop_serving(self) -> bool:
        """Ends what `serve` began. Returns True if no rank was lost and MPI may be used again."""
        if self.coordinations is not None:
            self.coordinations.close()
            self.coordinations = None
        if self.maps is not None:
            self.maps.close()
            self.maps = None
        if self.watching is not None:
            self.watching.close()
        if self._outputs is not None:
            self._outputs.close()
        if self.orders is not None:
            self.orders.stop()
        if self.lanes is not None:
            self.lanes.stop()
        whole = self.server is None or self.server.stop()
        found = None if self.server is None else self.server.figures()
        if found is not None and found.full_disks:
            self.warnings.append(
                f"{self.plan.local.path}: the disk is full, so not all planned "
                "files are kept here; the others were read from the shared file system"
            )
        if found is not None and found.mended_records:
            self.warnings.append(
                f"{self.plan.local.path}: {counted(found.mended_records, 'file')} that an "
                "earlier job had left there had changed; the content was read again from the "
                "shared file system"
            )
        self._tell_changed_originals()
        return whole

    def _tell_changed_originals(self) -> None:
        """Names the files that differed from their listing, and makes the next job list them
        again."""
        for mount, item in enumerate(self.served if self._segment_fd >= 0 else ()):
            changed = read_damaged(self._segment, mount) if item.dataset.is_planned else []
            if not changed:
                continue
            name = os.fsdecode(item.dataset.relpath(changed[0]))
            files = counted(len(changed), "file")
            what_then = (
                "programs that read one got an error, and the next job sees the new content"
                if is_address(item.info.directory)
                else "programs that opened one after its change got the new content, and the next "
                "job lists the directory again"
            )
            self.warnings.append(
                f"{item.info.directory}: {files} changed since the listing, such as {name}; "
                + what_then
            )
            from fanstore.prepare.listing import forget  # loads NumPy

            forget(item.info.index_path)

    def ranks_to_serve(self) -> int:
        """Returns how many other ranks may still read from this one. Called after this rank's
        command has ended."""
        return 0 if self.server is None else self.server.finish()

    def status(self) -> Status:
        """Returns the description and the counters of the job. May be called from any thread."""
        # Must be first, because it also updates the list of damaged files.
        figures = values_of(self.figures())
        removed = self.directory.removed()
        return Status(**values_of(self.about()), state=SERVING, removed=removed, **figures)

    def waited_s(self) -> dict[str, float]:
        """Returns how long programs have waited, all threads together, by source."""
        return {source: waits.ns / 1e9 for source, waits in read_stalls(self._segment).items()}

    def first_refused(self) -> str:
        """Returns the path of the input that a program tried to change first, or ""."""
        for note in self.directory.refused_writes()[:1]:
            mount, record = map(int, note.split())
            item = self.served[mount]
            return os.path.join(item.prefix.path, os.fsdecode(item.dataset.relpath(record)))
        return ""

    @property
    def _segment(self) -> str:
        """A path to the segment that works even after the segment's name was removed."""
        return f"/proc/self/fd/{self._segment_fd}"

    def figures(self) -> JobFigures:
        """Returns the present counts of the clients and the block cache."""
        node = None if self.server is None else self.server.figures()
        segment = self._segment
        counters, processes = read_counters(segment), read_processes(segment)
        if node is not None and node.damaged_records:
            self._note_damage(segment)
        return JobFigures(
            counters=counters,
            processes=processes,
            lost_ranks=[] if self.server is None else self.server.lost_ranks(),
            node=node,
            outputs=None if self.outputs is None else self.outputs.figures(),
            trace=None if self.lanes is None else self.lanes.figures(),
            order=None if self.orders is None else self.orders.figures(),
            raw_calls=self.directory.raw_calls(),
            memory=self._memory(0 if node is None else node.cache_bytes),
            buckets=self._bucket_figures(),
        )

    def _bucket_figures(self) -> BucketFigures | None:
        return bucket_figures(self._buckets.values())

    def _memory(self, cache_bytes: int) -> MemoryFigures:
        """Returns how much memory this rank uses. Indexes and packs count only if the local
        directory is in memory."""
        in_memory = self.plan.local.in_memory
        staged = [each.path for each in self._staged.values()] if in_memory else []
        return MemoryFigures(
            limit_bytes=self.plan.budget.limit_bytes,
            cache_bytes=cache_bytes,
            staged_bytes=sum(whole_files(path)[1] for path in staged),
            tables_bytes=os.stat(self._segment).st_size,
        )

    def _note_damage(self, segment: str) -> None:
        """Records the damaged files that the core has found while it fetched records."""
        for mount, item in enumerate(self.served):
            if item.dataset.is_planned:  # such a mark is not about damage there
                continue
            found: dict[int, list[int]] = {}
            for record in read_damaged(segment, mount):
                found.setdefault(int(item.dataset.record(record).pack), []).append(record)
            report = item.staging.report
            report.damaged = {**report.damaged, **found}

    def listener(self) -> socket.socket:
        """Returns the socket for clients of the daemon."""
        return listen(self.directory.path)

    def _preload_library(self) -> str:
        """Returns a path of the preload library that LD_PRELOAD accepts. If needed it makes a link
        and not a copy, because the local disk may not allow libraries to be loaded."""
        path = os.fspath(_native.preload_path())
        if _separates(path):
            link = self.directory.file("libfanstore_preload.so")
            if _separates(link):
                raise UsageError(
                    f"{link}: a path with a space, colon or dollar sign cannot be preloaded"
                )
            os.symlink(path, link)
            path = link
        return path

    def lock_paths(self) -> list[str]:
        """Returns the lock files of the job: while a process holds them, nothing that the job uses
        is removed."""
        paths = [self.directory.lock_path]
        paths += [staged.lock_path for staged in self._staged.values()]
        return paths + [item.hold.lock_path for item in self.served if item.hold.made]

    def about(self) -> JobDescription:
        """Returns the description of the job for `status` and job.json, without counters."""
        return JobDescription(
            job_id=self.directory.job_id,
            job_directory=self.directory.path,
            kind=self.plan.kind,
            rank=self.world.rank,
            host=os.uname().nodename,
            first_id="" if self.watching is None else self.watching.first_id,
            metrics="" if self.watching is None else self.watching.metrics_url,
            world_size=self.world.world_size,
            daemon_pid=os.getpid(),
            preload=self._preload,
            started_s=self.started_s,
            datasets=[about_dataset(item, self.world.rank) for item in self.served],
        )

    def kept(self) -> str:
        """Returns a sentence about the datasets of this job that are still staged. Call it after
        `close`."""
        return kept_words(staged.path for staged in self._staged.values())

    def close(self) -> list[str]:
        """Releases all locks and removes what nobody uses any more. Returns the names of files that
        had to stay."""
        if self._segment_fd >= 0:
            os.close(self._segment_fd)
            self._segment_fd = -1
        for item in self.served:
            item.hold.release()
        for staged in self._staged.values():
            staged.release(self.plan.settings.keep_staged)
        self.directory.release()
        if self.watching is not None:
            self.watching.close()
        return clean_up(self.base) if self._entered else []


def _separates(path: str) -> bool:
    """Returns whether a path contains characters that the dynamic linker treats specially in
    LD_PRELOAD: it would split the path or replace a part."""
    return any(separator in path for separator in " :\t\n$")


def _unchecked_packs(staging: StagedDataset) -> list[int]:
    """Returns the packs some of whose files must be checked before a client reads them: those that
    an earlier job left, and all of a listed directory, whose files may have changed since."""
    if staging.dataset.is_planned:
        return list(range(staging.dataset.pack_count))
    return staging.report.unchecked
