"""One rank of a staging exchange, started by mpiexec from test_exchange.

The one argument is a file with a JSON object: dataset (a directory), local and results
(directories to which the rank's number is added; with one_local all have rank 0's), settings, keep,
patience_s, and what is to go wrong: free_bytes (by rank), and for one rank each raise_in, full_disk
and die (as it receives), full_disk_reading.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from fanstore import config
from fanstore.dataset import open_dataset
from fanstore.errors import FanstoreError
from fanstore.staging import exchange
from fanstore.staging import stage as reading
from fanstore.staging.base import StagingFolder
from fanstore.staging.budget import budget_of
from fanstore.staging.crew import Crew, Stop
from fanstore.staging.index import DatasetInfo, announce
from fanstore.staging.local_dir import LocalDirectory, examine
from fanstore.staging.run import StagedDataset, check_in_place, stage_datasets
from fanstore.staging.staged import StagedDirectory
from fanstore.startup import MpiWorld, World

PATIENCE_S = 20.0
CHUNK_BYTES = 1 << 16  # so that small packs are several chunks, and a part of one


def watch_opens(directory: str) -> set[str]:
    """The names of files below `directory` that this process opens from now on."""
    opened: set[str] = set()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if os.path.dirname(path) == directory:
                opened.add(os.path.basename(path))

    sys.addaudithook(hook)
    return opened


def local_directory(spec: dict[str, Any], rank: int) -> LocalDirectory:
    """The rank's local directory, with as much free space as the test says."""
    path = os.path.join(spec["local"], "0" if spec.get("one_local") else str(rank))
    os.makedirs(path, exist_ok=True)
    found = examine(path, "test")
    free_bytes = spec.get("free_bytes", {}).get(str(rank), found.free_bytes)
    return dataclasses.replace(found, free_bytes=free_bytes)


def spoil(spec: dict[str, Any], rank: int) -> None:
    """Makes what the test wants go wrong on this rank."""

    def refuse(stream: Any, data: memoryview) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), stream.name)

    def give_up(*_: object) -> None:
        raise FanstoreError("this rank has had enough")

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    for key, module, action in (
        ("full_disk", exchange, refuse),
        ("full_disk_reading", reading, refuse),
        ("raise_in", exchange, give_up),
        ("die", exchange, die),
    ):
        if spec.get(key) == rank:
            setattr(module, "write_all", action)  # noqa: B010 -- no module exports that name


def describe(outcome: StagedDataset, info: DatasetInfo, opened: set[str]) -> dict[str, Any]:
    """What one rank has to say to the test."""
    with outcome.dataset as dataset:
        return {
            "report": dataclasses.asdict(outcome.report),
            "replicas": outcome.replicas,
            "states": [place.state for place in outcome.places],
            "asked": [place.replicas for place in outcome.places],
            "staged_ranks": outcome.staged_ranks,
            "own": None if outcome.shares is None else outcome.shares.own.tolist(),
            "name": dataset.name,
            "directory": os.fspath(dataset.directory),
            "index_path": os.fspath(dataset.index_path),
            "records": len(dataset.records),
            "told": info.directory,
            "opened": sorted(opened),
        }


class CountedComm:
    """A communicator that counts what this rank begins: `calls` by name, and the bytes that it
    sends to one rank, or is given of all."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.calls: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._comm, name)
        if not callable(found):
            return found

        def counted(*arguments: Any) -> Any:
            self.calls[name] += 1
            if name == "Isend":
                self.bytes[name] += memoryview(arguments[0][0]).nbytes
            elif name == "Iallgatherv":
                self.bytes[name] += len(arguments[1][0])
            return found(*arguments)

        return counted


def stage(spec: dict[str, Any], world: World) -> dict[str, Any]:
    """Stages, and lets go again."""
    opened = watch_opens(os.path.realpath(spec["dataset"]))
    directory = local_directory(spec, world.rank)
    settings = config.resolve({"replicas": "1", **spec.get("settings", {})}, {})
    (info,) = announce(world, [spec["dataset"]], lambda path: (open_dataset(path), ""))
    base = StagingFolder(directory.path)
    staged = StagedDirectory(base, info.dataset_id)
    with base.locked():
        staged.hold()
    try:
        with Crew(world, Stop(), settings.stage_threads) as crew:
            spoil(spec, world.rank)
            if settings.in_place:
                outcome = check_in_place(crew, open_dataset(info.directory), settings.verify)
            else:
                pairs = [(info, staged)]
                budget = budget_of(settings, directory)
                (outcome,) = stage_datasets(crew, pairs, directory, settings, budget)
        found = describe(outcome, info, opened)
        found["files"] = staged_files(staged)
    finally:
        staged.release(keep=bool(spec.get("keep")))
    return found


def staged_files(staged: StagedDirectory) -> list[str]:
    """The index and packs, and what should not be left."""
    names = sorted(os.listdir(staged.path))
    ours = ("lock", "keep")
    return [name for name in names if not name.endswith((".ok", ".lock")) and name not in ours]


def main() -> None:
    """The rank is a child of the process that mpiexec started, as in a job: mpiexec, which ends
    the others when a process of its own is killed, does not see the rank's death."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        run(json.loads(Path(sys.argv[1]).read_text()))
    else:
        os.waitpid(child, 0)


def run(spec: dict[str, Any]) -> None:
    """Stages and writes what came of it; ends at once when MPI cannot be finalised."""
    exchange.CHUNK_BYTES = CHUNK_BYTES
    world = MpiWorld(spec["world_size"], spec.get("patience_s", PATIENCE_S), lambda: None)
    counted = world.comm = CountedComm(world.comm)
    try:
        found = stage(spec, world)
        found["calls"], found["bytes"] = dict(counted.calls), dict(counted.bytes)
    except Exception as error:  # MPI's own, too, when a rank dies
        found = {"error": str(error), "type": type(error).__name__}
        world.fail(str(error))
    part = Path(spec["results"], f"{world.rank}.part")
    part.write_text(json.dumps(found))
    part.rename(Path(spec["results"], f"{world.rank}.json"))
    if not world.finish():
        os._exit(0)


if __name__ == "__main__":
    main()
