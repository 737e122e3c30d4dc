"""fanstore report: shows a kept trace as a page with plots."""

from __future__ import annotations

import json
import os

import click


@click.command()
@click.argument("trace", type=click.Path())
@click.option("--out", metavar="DIR|FILE.html",
              help="Write the page to this file or directory, and the figures as JSON beside it "
              "[default: beside TRACE].")  # fmt: skip
@click.option("--dataset", "datasets", multiple=True, metavar="DST",
              help="New place of a dataset of the job, if it was moved; for several, in the job's "
              "order.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="As JSON, and no page unless --out is given.")
def command(trace: str, out: str | None, datasets: tuple[str, ...], as_json: bool) -> None:
    """Make a page of TRACE, which `fanstore run --trace TRACE` kept.

    The page shows in words and plots which ranks and programs waited for what, and what to do about
    it. It is one HTML file that fetches nothing. A damaged trace is shown as far as it is sound.

    \b
    Example:
      fanstore report job.trace --out job.html
    """
    from fanstore.errors import FanstoreError, UsageError
    from fanstore.report.places import NO_PLOTS, can_draw, page_at
    from fanstore.report.write import figures_of, write_report

    if os.path.isdir(trace) or not os.path.exists(trace):
        what = "is a directory" if os.path.isdir(trace) else "no such file"
        raise UsageError(
            f"{trace}: {what}; a trace is kept by `fanstore run --trace FILE ... -- CMD`"
        )
    if as_json and out is None:
        click.echo(json.dumps(figures_of(trace, datasets), indent=1))
        return
    written = write_report(trace, page_at(out or _beside(trace)), datasets)
    if as_json:
        click.echo(written[-1].read_text(encoding="utf-8"), nl=False)
    else:
        click.echo("\n".join(map(os.fspath, written)))
    if not can_draw():
        raise FanstoreError(NO_PLOTS)


def _beside(trace: str) -> str:
    return trace.removesuffix(".trace") + ".html"
