"""Checks that all ranks of a job have the same options; a rank that cannot start reports it to the
others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from fanstore import __version__, _native
from fanstore.buckets.address import absolute
from fanstore.errors import FanstoreError, UsageError
from fanstore.job.plan import JobPlan
from fanstore.launcher import Launcher
from fanstore.startup import MpiWorld, RankLost

# Options that must be the same on every rank: otherwise the ranks would wait for messages that
# never come.
_COMMON = ("in_place", "verify", "stage", "replicas")


def agreed(plan: JobPlan) -> dict[str, object]:
    """Returns the values of this rank's options, by name; paths are absolute."""
    values: dict[str, object] = {name: getattr(plan.settings, name) for name in _COMMON}
    datasets = [absolute(path) for path, _ in plan.datasets]
    wire = f"{__version__} (messages of version {_native.lib.FAN_WIRE_VERSION})"
    return {"version": wire, "dataset": datasets, "output_dir": plan.output_dir, **values}


def check_agreement(answers: Sequence[dict[str, object]], own_rank: int) -> None:
    """Raises an error on every rank, which names one whose options differ from rank 0's: UsageError
    on rank 0, which reports for all, RankLost on the others."""
    for rank, answer in enumerate(answers):
        for name in {**answers[0], **answer}:
            value, first = (of.get(name, "an older one") for of in (answer, answers[0]))
            if value != first:
                what = "FanStore" if name == "version" else "--" + name.replace("_", "-")
                message = (
                    f"{what} is {_spoken(value)} on rank {rank} and {_spoken(first)} "
                    "on rank 0: the ranks of a job must be given the same"
                )
                raise UsageError(message) if own_rank == 0 else RankLost(message, told=True)


def _spoken(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


_PATIENCE_S = 30.0


@contextlib.contextmanager
def failure_told_to_others(launcher: Launcher) -> Iterator[None]:
    """Wraps the steps of a rank before it has a node daemon. A FanstoreError that is raised in them
    ends the daemons of all other ranks with the same message, and is raised again."""
    try:
        yield
    except FanstoreError as error:
        if launcher.world_size > 1:
            _tell(launcher, str(error))
        raise


def _tell(launcher: Launcher, message: str) -> None:
    """Joins the other ranks only to report the error. Without MPI they could not join either, so
    none waits for this rank."""
    with contextlib.suppress(FanstoreError):
        world = MpiWorld(launcher.world_size, _PATIENCE_S, lambda: None)
        world.fail(message)
        world.finish()
