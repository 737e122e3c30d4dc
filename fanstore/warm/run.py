"""Fetches the files that paths name to this node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from fanstore._native import lib
from fanstore.atomic import Ended, Interrupted, ending_on_signals
from fanstore.job.jobs import FoundJob, ask
from fanstore.messages.requests import ListMounts, MountList
from fanstore.progress import progress_of
from fanstore.warm.elsewhere import Bringing
from fanstore.warm.mounts import Mount, mounts_of, named_files
from fanstore.warm.page_cache import read_into_memory
from fanstore.warm.tally import Count, Tally
from fanstore.wording import show_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LOCAL = (lib.FAN_PLACE_STAGED, lib.FAN_PLACE_IN_PLACE)


def warm_up(job: FoundJob, paths: Iterable[bytes], quiet: bool) -> tuple[Tally, int]:
    """Fetches the files to this node. Returns the tally of their bytes, and the number of files
    with content that the paths name.

    Raises UsageError for paths that do not exist, FanstoreError if the daemon does not answer,
    Interrupted at a signal that ends the process."""
    with ExitStack() as stack:
        mounts = mounts_of(ask(job, ListMounts(), MountList).mounts)
        for mount in mounts:
            # Not left to the traceback of an error: the interpreter, at its end, frees what hangs
            # on it in any order, and views of a mapping that is gone crash it.
            stack.enter_context(mount.dataset)
        return _warm_mounts(job, mounts, named_files(mounts, paths), quiet)


def _warm_mounts(
    job: FoundJob, mounts: Sequence[Mount], files: Mapping[int, NDArray[Any]], quiet: bool
) -> tuple[Tally, int]:
    with progress_of("warmup", quiet=quiet) as progress:
        count = Count(progress)
        sizes = [mounts[n].dataset.records["stored_size"][ids] for n, ids in files.items()]
        progress.expect(sum(int(each.sum()) for each in sizes))
        try:
            with ending_on_signals():
                for number, ids in files.items():
                    _warm_mount(job, mounts[number], ids, count)
        except Ended as ended:
            brought = show_bytes(count.tally.brought)
            raise Interrupted(ended, f"{brought} were brought by then, and stay") from None
    return count.tally, sum(len(ids) for ids in files.values())


def _warm_mount(job: FoundJob, mount: Mount, ids: NDArray[Any], count: Count) -> None:
    """Fetches records of a mount. Begins with records that other nodes have, so that their disks
    work while this node reads its own."""
    from fanstore.arrays import np

    local = np.isin(np.asarray(mount.places), _LOCAL)[mount.dataset.records["pack"][ids]]
    here = Bringing(job, mount, count).bring(ids[~local])
    read_into_memory(mount, ids[local], count)
    read_into_memory(mount, np.array(here, dtype=np.int64), count)
