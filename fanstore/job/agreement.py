"""All ranks of a job are given the same; one that cannot start tells the others."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from fanstore import __version__, _native
from fanstore.errors import FanstoreError, UsageError
from fanstore.job.plan import JobPlan
from fanstore.launcher import Launcher
from fanstore.startup import MpiWorld, RankLost

# What every rank of a job must be given alike: else they do not meet at the same places.
_COMMON = ("in_place", "verify", "stage", "replicas")


def agreed(plan: JobPlan) -> dict[str, object]:
    """Returns what this rank was given, by the option's name; paths absolute."""
    values: dict[str, object] = {name: getattr(plan.settings, name) for name in _COMMON}
    datasets = [os.path.abspath(path) for path, _ in plan.datasets]
    wire = f"{__version__} (messages of version {_native.lib.FAN_WIRE_VERSION})"
    files = {"output_dir": plan.output_dir, "plan": plan.plan_file}
    return {"version": wire, "dataset": datasets, **files, **values}


def check_agreement(answers: Sequence[dict[str, object]], own_rank: int) -> None:
    """Raises on every rank when one was given something else than rank 0, naming it: UsageError on
    rank 0, which speaks for all."""
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
    """Around what a rank does before it has a node daemon: a FanstoreError raised there ends the
    daemons of all other ranks with the same message, and is raised on."""
    try:
        yield
    except FanstoreError as error:
        if launcher.world_size > 1:
            _tell(launcher, str(error))
        raise


def _tell(launcher: Launcher, message: str) -> None:
    """Joins the other ranks only to say so. Where MPI is missing they have not come together and
    nobody waits."""
    with contextlib.suppress(FanstoreError):
        world = MpiWorld(launcher.world_size, _PATIENCE_S, lambda: None)
        world.fail(message)
        world.finish()
