"""fanstore verify: check every checksum of a dataset."""

from __future__ import annotations

import json
import os

import click

from fanstore.exit_codes import DAMAGED


@click.command()
@click.argument("dataset", type=click.Path())
@click.option(
    "--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, help="Packs at a time."
)
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON on stdout.")
@click.option("--quiet", is_flag=True, help="No progress; only what is damaged.")
def command(dataset: str, jobs: int, as_json: bool, quiet: bool) -> int:
    """Check the index of DATASET, the ends of its packs, and the content of every file.

    DATASET may be an address; each pack is then copied to $TMPDIR for a while.

    Damaged files are named, one a line. The exit code is 3 when anything is damaged.

    \b
    Example:
      fanstore verify imagenet.fan
    """
    from fanstore.errors import show_path
    from fanstore.progress import progress_of
    from fanstore.reading.packs import open_packed
    from fanstore.verify import verify
    from fanstore.wording import counted

    with (
        open_packed(dataset) as opened,
        progress_of("verifying", quiet=quiet) as progress,
    ):
        progress.expect(opened.header.logical_bytes)
        findings = verify(opened, jobs, progress.advance)
    names = [show_path(name) for name in findings.damaged]
    if as_json:
        report = {
            "files": findings.files,
            "bytes": findings.logical_bytes,
            "refused": findings.refused,
            "damaged_files": names,
        }
        click.echo(json.dumps(report, indent=2))
    else:
        for line in [*findings.refused, *(f"damaged: {name}" for name in names)]:
            click.echo(line)
        if findings.sound and not quiet:
            size = counted(findings.logical_bytes, "byte")
            amount = f"{counted(findings.files, 'file')}, {size}"
            click.echo(f"{dataset}: {amount}: sound")
    return 0 if findings.sound else DAMAGED
