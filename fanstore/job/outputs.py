"""Sets up the outputs of a job, and waits for them at the job's end."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from io import FileIO
from pathlib import Path
from typing import Any

from fanstore.buckets.address import is_address
from fanstore.buckets.bucket import Bucket
from fanstore.buckets.writing import Writer
from fanstore.config import spoken
from fanstore.errors import FanstoreError, UsageError
from fanstore.job.plan import JobPlan
from fanstore.messages.channel import bind
from fanstore.messages.job import Flushing
from fanstore.messages.message import values_of
from fanstore.node.job_directory import JobDirectory
from fanstore.outputs.files.location import folders_of, problem_of, refusal_of
from fanstore.outputs.model.entries import keeper_of
from fanstore.outputs.ranks.ranks import SOCKET, Ranks
from fanstore.outputs.service import LOCK, MountedDataset, OutputService
from fanstore.outputs.tree.dead_job import TREES, roots_of
from fanstore.outputs.tree.inputs import Inputs, touched_bitmaps
from fanstore.outputs.tree.placed import Header
from fanstore.outputs.tree.shared import set_up
from fanstore.outputs.tree.walk import COUNTERPART_MODE
from fanstore.rank_calls.connected import ConnectedPeers
from fanstore.staging import locks
from fanstore.staging.base import is_within_any
from fanstore.staging.room import size
from fanstore.startup import World
from fanstore.wording import counted

_PREDECESSOR_S = 30.0
_PREDECESSOR_TELL_S = 1.0
_BUCKET_WAIT_S = 10.0


def check_output_dir(plan: JobPlan, prefixes: Sequence[str], rank: int) -> str:
    """Raises UsageError if the output directory, given or default, is under a mount or in
    FanStore's own directories, or cannot be written. Checked early, so that a job does not fail
    after it has written everything. Returns a warning instead if only the default cannot be
    written: many jobs write nothing under their mounts."""

    if is_address(plan.output_dir):
        return _check_bucket(plan, rank)

    def refusal(path: str) -> str:
        if is_within_any(os.path.realpath(path)):
            return "lies in FanStore's own directory, which is cleared"
        return refusal_of(path, prefixes)

    refused = refusal(plan.output_dir)
    if found := refused or problem_of(plan.output_dir):
        where = spoken(plan.settings.sources["output_dir"], "output_dir")
        here = os.getcwd()
        places = [here, *map(str, Path(here).parents), os.path.expanduser("~")]
        others = (os.path.join(place, "fanstore-output") for place in places)
        other = shlex.quote(
            next((path for path in others if not (refusal(path) or problem_of(path))), "DIR")
        )
        line = (
            f"output directory {plan.output_dir} ({where}): {found}; give another one, "
            f"such as --output-dir {other}"
        )
        if refused or where != "default":
            raise UsageError(line)
        return line
    return ""


def _check_bucket(plan: JobPlan, rank: int) -> str:
    """Does the same for outputs that go to a bucket, with one rank's requests. Returns a warning if
    it holds objects."""
    bucket = Bucket(plan.output_dir)
    if plan.settings.continue_outputs:
        raise UsageError(f"--continue wants an output directory, not {plan.output_dir}")
    if rank == 0:
        Writer(bucket).try_out()
        with contextlib.suppress(FanstoreError):  # writing may be all that the user may do there
            one = {"list-type": "2", "prefix": bucket.address.prefix, "max-keys": "1"}
            if b"<Key>" in bucket.send("GET", None, one, deadline_s=_BUCKET_WAIT_S).content:
                return f"{bucket.address} has objects already, of which outputs replace none"
    return ""


def make_tree(directory: JobDirectory, number: int) -> str:
    """Makes the output tree of a mount. Returns its path."""
    path = directory.file(TREES, str(number))
    os.makedirs(path, 0o700)
    os.chmod(path, COUNTERPART_MODE)
    return path


class JobOutputs:
    """The outputs of a job: connects the service for outputs with the job."""

    def __init__(
        self, plan: JobPlan, directory: JobDirectory, mounts: Sequence[MountedDataset]
    ) -> None:
        """Reserves the space on the local disk that the outputs need, before packs fill it."""
        self._plan = plan
        self._directory = directory
        segment = directory.file("segment")
        set_up(segment)
        prefixes = [os.fsdecode(mount.prefixes[0]) for mount in mounts]
        folders = tuple(os.fsdecode(each) for each in folders_of(prefixes))
        keep_partial = plan.settings.partial_outputs == "keep"
        header = Header(directory.job_id, plan.output_dir, folders, plan.umask, keep_partial)
        self._roots = roots_of(directory.path, folders)
        self._segment = FileIO(segment, "r+")
        self._inputs = [
            Inputs(mount.dataset, mount.prefixes, self._segment, touched_at)
            for mount, touched_at in zip(mounts, touched_bitmaps(self._segment), strict=True)
        ]
        self.service = OutputService(
            directory.path, header, self._roots, prefixes, plan.settings.output_wait_s
        )

    def take_up(self, world: World, check: Callable[[], None]) -> str:
        """If the user asked for it, continues with the content of the output directory: each rank
        takes the files whose names it keeps. Returns a sentence for people about how much that is.
        check: raises if the job is to end."""
        if not self._plan.settings.continue_outputs:
            return ""
        lock, problem = None, ""
        if world.rank == 0:
            try:
                lock = _alone(self._plan.output_dir, check)
            except FanstoreError as error:
                problem = str(error)
        problem = world.broadcast(problem)
        if problem:
            raise FanstoreError(problem)

        def keeps(mount: int, path: bytes) -> bool:
            return keeper_of(mount, path, world.world_size) == world.rank

        taken = world.gather_all(self.service.take_up(self._inputs, keeps, lock, check))
        for mount, record in {each for of_rank in taken for each in of_rank.touched}:
            self._inputs[mount].touch(record)
        files, total_bytes = (
            sum(of) for of in zip(*((t.files, t.bytes) for t in taken), strict=True)
        )
        return f"{counted(files, 'file')}, {size(total_bytes)}"

    def start(self, peers: ConnectedPeers | None) -> None:
        """Begins to place outputs and, if there are other ranks, to answer programs about
        outputs."""
        if peers is None:
            self.service.start(None)
            return
        root = os.fsencode(self._plan.output_dir)
        self.service.start(
            Ranks(
                self._directory.path, bind(self._directory.path, SOCKET), self._inputs,
                [tree for _, tree in self._roots],
                [os.path.join(root, folder) for folder, _ in self._roots],
                peers,
            )
        )  # fmt: skip

    def close(self) -> None:
        """Ends the service."""
        self.service.close()
        self._segment.close()


def _alone(output_dir: str, check: Callable[[], None]) -> int:
    """Takes the lock of an output directory with which a job continues. Waits a while, because the
    previous job may still be copying its last outputs there."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(output_dir)
    begun_s = time.monotonic()
    told = False

    def still() -> None:
        nonlocal told
        check()
        waited_s = time.monotonic() - begun_s
        if waited_s > _PREDECESSOR_TELL_S and not told:
            told = True
            print(
                f"fanstore: another job goes on with {output_dir}: waiting up to "
                f"{_PREDECESSOR_S:.0f} s for its end",
                file=sys.stderr,
                flush=True,
            )
        if waited_s > _PREDECESSOR_S:
            raise FanstoreError(
                f"another job goes on with {output_dir}: wait for its end, or name another "
                "--output-dir"
            )

    return locks.wait(os.path.join(output_dir, LOCK), exclusive=True, check=still)


FLUSH_TELL_S = 1.0
_GIVE_UP_WAIT_S = 2.0


class Flush:
    """Waits for `work` of the outputs. Sends a message about its progress through `tell` every
    second."""

    def __init__(
        self,
        outputs: OutputService,
        work: Future[Any],
        tell: Callable[[Flushing], None],
        wake: Callable[[], None],
    ) -> None:
        self._outputs = outputs
        self._work = work
        self._tell = tell
        self._told_s = 0.0
        self._given_up_s: float | None = None
        work.add_done_callback(lambda _: wake())

    def goes_on(self) -> bool:
        """Sends the progress to the parent. Returns whether to go on waiting: after `give_up` it
        soon returns False, even if the work hangs."""
        now_s = time.monotonic()
        if self._work.done():
            return False
        if self._given_up_s is not None and now_s > self._given_up_s + _GIVE_UP_WAIT_S:
            return False
        if now_s >= self._told_s + FLUSH_TELL_S:
            self._told_s = now_s
            self._tell(Flushing(**values_of(self._outputs.figures())))
        return True

    def give_up(self) -> None:
        """Makes the work end soon. Outputs that are not placed by then stay on this node."""
        if self._given_up_s is None:
            self._given_up_s = time.monotonic()
            self._outputs.give_up()

    def problem(self) -> str:
        """Returns why the work failed, or ""."""
        if not self._work.done():
            return "not waited for"
        error = self._work.exception()
        if error is None:
            return ""
        print(f"fanstore: outputs: {type(error).__name__}: {error}", file=sys.stderr)
        return str(error)
