"""fanstore sbatch: prints a job script for Slurm."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from fanstore.cli.dataset_options import ServingCommand
from fanstore.cli.run import command as run_command
from fanstore.cli.start import command as start_command

# Options of sbatch itself that have a name of their own here.
_LIMITS = ("job_name", "partition", "account", "gpus_per_node", "mem", "output")
_GIVEN = "fanstore.given"


class SbatchCommand(ServingCommand):
    """A command that remembers its options as they were written."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        raw, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_GIVEN] = list(as_written(raw, order))
        return super().parse_args(ctx, args)


def as_written(
    raw: Mapping[str, Any], order: Sequence[click.Parameter]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(parameter, words) of each option in the order given; of a repeated value the last."""
    several = {p.name: iter(raw[p.name]) for p in order if p.name and p.multiple}
    done = set()
    for parameter in order:
        name = parameter.name
        if not isinstance(parameter, click.Option) or name is None or name in done:
            continue
        if name in several:
            yield name, (parameter.opts[-1], next(several[name]))
            continue
        done.add(name)
        if parameter.is_flag:
            yield name, ((parameter.opts if raw[name] else parameter.secondary_opts)[-1],)
        else:
            yield name, (parameter.opts[-1], raw[name])


def names_of(command: click.Command) -> set[str]:
    """The parameters of a subcommand that are options."""
    return {p.name for p in command.params if isinstance(p, click.Option) and p.name}


def run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of `fanstore run`, whatever they are."""
    taken = [p for p in run_command.params if isinstance(p, click.Option)]
    function.__click_params__ = [*reversed(taken), *getattr(function, "__click_params__", [])]  # type: ignore[attr-defined]
    return function


def serving_words(ctx: click.Context, mode: str) -> tuple[tuple[str, ...], ...]:
    """The options meant for `fanstore run` or `start`; a usage error where it has none such."""
    served = names_of(run_command if mode == "run" else start_command) - {"local_dir"}
    given = [(n, words) for n, words in ctx.meta[_GIVEN] if n in names_of(run_command)]
    for name, words in given:
        if name not in served | {"local_dir"}:
            raise click.UsageError(f"{words[0]} is not for --mode {mode}", ctx)
    return tuple(words for name, words in given if name in served)


def our_program() -> str:
    """The console script of this installation, else the one on PATH."""
    installed = os.path.join(sysconfig.get_path("scripts"), "fanstore")
    return installed if os.access(installed, os.X_OK) else shutil.which("fanstore") or "fanstore"


@click.command(
    cls=SbatchCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Print a job script for Slurm.",
)
@click.option("-N", "--nodes", type=click.IntRange(min=1), required=True, help="Nodes.")
@click.option(
    "--mode",
    type=click.Choice(["run", "mpi"]),
    default="run",
    show_default=True,
    help="run: CMD once on each node. mpi: CMD as MPI ranks of its own beside the daemons.",
)
@click.option(
    "--ntasks-per-node",
    type=click.IntRange(min=1),
    help="With --mode mpi: ranks of CMD on each node [default: 1].",
)
@click.option(
    "--site", type=click.Path(path_type=Path), help="TOML file that describes the cluster."
)
@click.option("--time", metavar="LIMIT", help="Time limit, as sbatch takes it.")
@click.option("--cpus-per-task", type=click.IntRange(min=1), help="CPUs of each task.")
@click.option("--job-name", metavar="NAME", help="For sbatch.")
@click.option("--partition", metavar="NAME", help="For sbatch.")
@click.option("--account", metavar="NAME", help="For sbatch.")
@click.option("--gpus-per-node", metavar="GPUS", help="For sbatch.")
@click.option("--mem", metavar="SIZE", help="For sbatch: memory of each node.")
@click.option("--output", metavar="FILE", help="For sbatch.")
@click.option(
    "--sbatch",
    "more",
    multiple=True,
    metavar="OPTION",
    help="Any other option of sbatch: --name=value.",
)
@run_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Print a job script for Slurm that runs CMD under FanStore on N nodes.

    The script is complete and commented: read it, change it, give it to sbatch. Options from
    --dataset on are those of `fanstore run`. In --local-dir, $NAMES are expanded on each node.
    """
    from fanstore.config import resolve
    from fanstore.launch import sbatch

    if options["mode"] == "run" and options["ntasks_per_node"] is not None:
        raise click.UsageError("--ntasks-per-node is for --mode mpi", ctx)
    resolve({name: options[name] for name in names_of(run_command)})
    site = sbatch.load_site(options["site"]) if options["site"] else sbatch.Site()
    job = sbatch.Job(
        nodes=options["nodes"],
        command=options["command"],
        options=serving_words(ctx, options["mode"]),
        fanstore=our_program(),
        mode=options["mode"],
        tasks_per_node=options["ntasks_per_node"] or 1,
        local_dir=options["local_dir"],
        time=options["time"],
        cpus_per_task=options["cpus_per_task"],
        limits={n.replace("_", "-"): options[n] for n in _LIMITS if options[n] is not None},
        sbatch=options["more"],
    )
    sys.stdout.buffer.write(os.fsencode(sbatch.render(job, site)))
