"""fanstore dataset rebuild-index: make a lost or damaged index again from the packs."""

from __future__ import annotations

from pathlib import Path

import click

from fanstore.exit_codes import DAMAGED


@click.command()
@click.argument("dataset", type=click.Path(exists=True, file_okay=False, path_type=Path))
def command(dataset: Path) -> int:
    """Make index.fsi of DATASET again from its packs alone, the same bytes as at first if this
    version made them.

    An index that is there is replaced once the new one is complete. All content is checked: files
    that are damaged are named, stay damaged, and the exit code is 3.

    \b
    Example:
      fanstore dataset rebuild-index imagenet.fan
    """
    from fanstore.errors import show_path
    from fanstore.prepare.rebuild import rebuild_index

    made = rebuild_index(dataset)
    for name in made.damaged:
        click.echo(f"damaged: {show_path(name)}")
    click.echo(f"{dataset}: index of {made.index_bytes:,} bytes, dataset {made.dataset_id}")
    return DAMAGED if made.damaged else 0
