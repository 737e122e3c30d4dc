"""Sets the outputs of a job up as its plan says."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from io import FileIO

from fanstore.config import spoken
from fanstore.errors import FanstoreError, UsageError
from fanstore.load import locks
from fanstore.load.base import is_within_any
from fanstore.load.room import size
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.service.inputs import DatasetInputs, touched_bitmaps
from fanstore.outputs.service.service import SOCKET, Mount, OutputService
from fanstore.outputs.stageout.journal import JOURNAL, Header, Journal
from fanstore.outputs.stageout.location import folders_of, refusal_of
from fanstore.outputs.stageout.placing import OutputDirectory
from fanstore.outputs.stageout.stageout import StageOut
from fanstore.outputs.tree.dead_job import TREES, roots_of
from fanstore.outputs.tree.placed import Header as TreeHeader
from fanstore.outputs.tree.service import LOCK, TreeService
from fanstore.outputs.tree.shared import set_up
from fanstore.peers.connected import ConnectedPeers
from fanstore.peers.interface import Peers
from fanstore.serve.job_directory import JobDirectory
from fanstore.serve.job_plan import JobPlan
from fanstore.serve.protocol import bind
from fanstore.wording import counted

_PREDECESSOR_S = 30.0


def check_output_dir(plan: JobPlan, prefixes: Sequence[str]) -> None:
    """Raises UsageError for an output directory under a mount or in a directory of FanStore's own,
    the default included: a job must not learn of that when it has written everything."""
    source = plan.settings.sources["output_dir"]
    refusal = refusal_of(plan.output_dir, prefixes)
    if is_within_any(os.path.realpath(plan.output_dir)):
        refusal = "lies in FanStore's own directory, which is cleared"
    if refusal:
        where = spoken(source, "output_dir")
        raise UsageError(
            f"output directory {plan.output_dir} ({where}): {refusal}; "
            "name one elsewhere with --output-dir"
        )


def make_tree(directory: JobDirectory, number: int) -> str:
    """Makes the output tree of a mount; returns its path."""
    path = directory.file(TREES, str(number))
    os.makedirs(path, 0o700)
    directory.has_trees = True
    return path


def open_tree(
    plan: JobPlan, directory: JobDirectory, mounts: Sequence[Mount], check: Callable[[], None]
) -> tuple[TreeService, str]:
    """Makes the service of the outputs of a job of one rank; with it returns what of an earlier run
    it goes on with, for people. check: raises where that is to end."""
    prefixes = [os.fsdecode(mount.prefixes[0]) for mount in mounts]
    set_up(directory.file("segment"))
    folders = tuple(os.fsdecode(each) for each in folders_of(prefixes))
    keep_partial = plan.settings.partial_outputs == "keep"
    header = TreeHeader(directory.job_id, plan.output_dir, folders, plan.umask, keep_partial)
    roots = roots_of(directory.path, folders)
    service = TreeService(directory.path, header, roots, prefixes, plan.settings.output_wait_s)
    if not plan.settings.continue_outputs:
        return service, ""
    lock = _alone(plan.output_dir, check)
    with FileIO(directory.file("segment"), "r+") as segment:
        inputs = [
            DatasetInputs(mount.dataset, mount.prefixes, segment, touched_at)
            for mount, touched_at in zip(mounts, touched_bitmaps(segment), strict=True)
        ]
        files, total_bytes = service.take_up(inputs, lock, check)
        return service, f"{counted(files, 'file')}, {size(total_bytes)}"


def _alone(output_dir: str, check: Callable[[], None]) -> int:
    """Takes the lock of an output directory that a job goes on with; waits a while for the job
    before this one, which may be bringing its last outputs there."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(output_dir)
    until_s = time.monotonic() + _PREDECESSOR_S

    def still() -> None:
        check()
        if time.monotonic() > until_s:
            raise FanstoreError(
                f"another job goes on with {output_dir}: wait for its end, or name another "
                "--output-dir"
            )

    return locks.wait(os.path.join(output_dir, LOCK), exclusive=True, check=still)


def open_service(
    plan: JobPlan,
    directory: JobDirectory,
    prefixes: Sequence[str],
    mounts: Sequence[Mount],
    peers: ConnectedPeers | None,
) -> OutputService:
    """Makes the service of a job's outputs, with its stage-out. prefixes: of mounts. peers: given
    where there are other ranks."""
    header = Header(
        directory.job_id,
        os.fsencode(plan.output_dir),
        folders_of(prefixes),
        plan.umask,
        time.time_ns(),
    )
    path, wait_s = directory.file(JOURNAL), plan.settings.output_wait_s

    def stage_out(ranks: Peers, tables: NameTables, objects: ObjectStore) -> StageOut:
        into = OutputDirectory(header)
        return StageOut(ranks, tables, objects, into, Journal(path, header), wait_s)

    keep_partial = plan.settings.partial_outputs == "keep"
    segment = directory.file("segment")
    listener = bind(directory.path, SOCKET)
    return OutputService(directory.path, segment, listener, mounts, stage_out, peers, keep_partial)
