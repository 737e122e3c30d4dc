"""fanstore study analyze: finds out where a job waits, and what would help."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from fanstore import config
from fanstore.cli.command import command_argument
from fanstore.cli.dataset_options import ServingCommand, serving_options, written_options


@click.command(
    cls=ServingCommand,
    common="steps limit out ingest launcher writes dataset mount local_dir",
)
@click.option("--steps", type=click.IntRange(min=10), default=100, show_default=True,
              help="Batches that are measured in each phase.")  # fmt: skip
@click.option("--limit", type=click.FloatRange(min=1), default=300, show_default=True,
              metavar="SECONDS", help="How long a phase may take.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              default=Path("fanstore-analysis"), show_default=True,
              help="Write the report here: analysis.json.")  # fmt: skip
@click.option("--ingest", type=click.FloatRange(min=0, min_open=True), metavar="RATE",
              help="Samples a second that training consumes, if known.")  # fmt: skip
@click.option("--launcher", metavar="WORDS", default="",
              help="Command that starts several ranks, such as 'srun "
              "--ntasks-per-node=1'.")  # fmt: skip
@click.option("--writes", type=click.Choice(["aside", "real"]), default="aside", show_default=True,
              help="Whether files that CMD writes outside of mounts are dropped, or go to their "
              "place.")  # fmt: skip
@serving_options
@command_argument
@click.pass_context
def command(
    ctx: click.Context,
    /,
    steps: int,
    limit: float,
    out: Path,
    ingest: float | None,
    launcher: str,
    writes: str,
    command: tuple[str, ...],
    **serving: Any,
) -> int:
    """Run CMD several times for some steps, and say what limits it: training, preparation or
    fetches.

    Files that CMD writes are dropped at the end of each run. Options from --dataset on are those of
    `fanstore run`.

    \b
    Example:
      fanstore study analyze --dataset imagenet.fan --mount /data/imagenet -- \\
          python train.py --data /data/imagenet
    """
    from fanstore.errors import UsageError
    from fanstore.study.analyze.aside import problem
    from fanstore.study.analyze.phase import AnalysisRequest
    from fanstore.study.analyze.session import analyse

    for name in ("trace", "report", "metrics_port", "metrics_address"):
        if serving[name] is not None:
            option = config.spoken("flag", name)
            raise UsageError(f"{option} is of a whole job; an analysis has traces of its own")
    given = written_options(ctx, serving)
    if serving["output_dir"] is not None:
        click.echo("fanstore: outputs go to a scratch directory, not to --output-dir", err=True)
    if writes == "aside" and (reason := problem()):
        raise UsageError(
            f"what CMD writes cannot be set aside on this machine ({reason}); --writes real has it "
            "write to its place, over checkpoints too"
        )
    try:
        words = tuple(shlex.split(launcher))
    except ValueError as error:
        raise UsageError(f"--launcher {launcher!r}: {error}") from None
    request = AnalysisRequest(
        serving["dataset"], given, command, steps, limit, words, writes == "aside", ingest
    )
    return analyse(request, out, bool(serving["quiet"]), click.echo)
