"""fanstore study calibrate: measures the rates of this machine's storage and network."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fanstore.startup import World
    from fanstore.study.calibrate.run import CalibrationPlan

_PATIENCE_S = 60.0  # how long a rank may be silent


@click.command()
@click.option("--shared", required=True, type=click.Path(path_type=Path), metavar="DIR",
              help="A directory of the shared file system: a dataset, whose packs are read, or one "
              "to write temporary files in.")  # fmt: skip
@click.option("--local-dir", metavar="DIR", help="A directory on this node's own disk (default: "
              "searched as for a job); {rank} is the number of a rank.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              default="machine.toml", show_default=True, help="The file to write.")  # fmt: skip
@click.option("--bytes", "budget", default="256MiB", show_default=True, metavar="SIZE",
              help="The most that is written, and read at a time.")  # fmt: skip
@click.option("--repeats", type=click.IntRange(2, 1000), default=5, show_default=True, metavar="N",
              help="How often each rate is measured.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace FILE.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(
    shared: Path,
    local_dir: str | None,
    out: Path,
    budget: str,
    repeats: int,
    force: bool,
    quiet: bool,
) -> int:
    """Measure the shared file system at 1, 2, 4 and 8 readers, this node's disk and memory at as
    many threads, and, started by mpiexec or srun, the network; write them as the machine of a
    scenario (fanstore study simulate).

    Temporary files have no name while they are used, so that nothing is left of them. Rates come
    with their spread; worthless ones are named.

    \b
    Example:
      srun --ntasks-per-node=1 --mpi=pmi2 \\
          fanstore study calibrate --shared /shared/imagenet.fan
    """
    from fanstore.launcher import detect, for_rank
    from fanstore.staging.local_dir import choose, make_missing
    from fanstore.study.calibrate.run import CalibrationPlan

    launcher = detect(os.environ)

    def work(world: World) -> None:
        local = choose(for_rank(local_dir, launcher))
        make_missing(local)
        plan = CalibrationPlan(shared, local, _budget_bytes(budget), repeats)
        _measure(plan, world, out, force, quiet)

    return _with_ranks(work)


def _budget_bytes(text: str) -> int:
    from fanstore.errors import UsageError
    from fanstore.study.fields import size_bytes

    with contextlib.suppress(ValueError):
        if size_bytes(text) >= 1 << 20:
            return size_bytes(text)
    raise UsageError(f"--bytes is {text!r}; allowed: a number with a unit, from 1 MiB on")


def _measure(orders: CalibrationPlan, world: World, path: Path, force: bool, quiet: bool) -> None:
    from fanstore.atomic import check_free, whole_file
    from fanstore.progress import Meter, progress_of
    from fanstore.study.calibrate.machine import doubts, text_of
    from fanstore.study.calibrate.run import measure

    if world.rank == 0:
        check_free(path, force)
    with progress_of("measuring", quiet=quiet or world.rank > 0) as progress:
        world.show = Meter(progress).show
        machine = measure(orders, world)
    if machine is None:
        return
    with whole_file(path, force) as stream:
        stream.write(text_of(machine).encode())
    for line in doubts(machine):
        print(f"fanstore: {line}", file=sys.stderr)
    click.echo(str(path))


def _with_ranks(work: Callable[[World], None]) -> int:
    """Calls `work` on all ranks and returns the exit code. If it fails on one rank, it ends on all,
    and that rank prints the error."""
    from fanstore.atomic import Ended, Interrupted, ending_on_signals
    from fanstore.cli import describe
    from fanstore.errors import FanstoreError
    from fanstore.launcher import detect
    from fanstore.startup import MpiWorld, RankLost, World

    ranks = detect(os.environ).world_size
    world = World()
    failure: FanstoreError | None = None
    with ending_on_signals():
        try:
            if ranks > 1:
                world = MpiWorld(ranks, _PATIENCE_S, lambda: None)
            work(world)
        except Ended as ended:
            failure = Interrupted(ended, "no machine was written, and nothing is left behind")
        except FanstoreError as error:
            failure = error
        except OSError as error:
            failure = FanstoreError(describe(error))
        if failure is not None:
            world.fail(str(failure))
        is_ended = world.finish()
    silent = isinstance(failure, RankLost) and failure.told
    code = failure.exit_code if failure is not None else 0
    if failure is not None and not silent:
        if is_ended:
            raise failure
        print(f"fanstore: error: {failure}", file=sys.stderr)
    if not is_ended:  # MPI may still write to memory: skip the interpreter's exit
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
