"""fanstore rebuild-index: make a lost or damaged index again from the packs."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command(short_help="Make the index of a dataset again from its packs.")
@click.argument("dataset", type=click.Path(exists=True, file_okay=False, path_type=Path))
def command(dataset: Path) -> int:
    """Make index.fsi of DATASET again from its packs alone, the same bytes as at first.

    An index that is there is replaced once the new one is complete.
    """
    from fanstore.dataset import INDEX_NAME
    from fanstore.prepare.rebuild import rebuild_index

    index, dataset_id = rebuild_index(dataset)
    fresh = dataset / f".{INDEX_NAME}.{os.getpid()}"
    try:
        with fresh.open("xb") as file:
            file.write(index)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(dataset / INDEX_NAME)
    finally:
        fresh.unlink(missing_ok=True)
    click.echo(f"{dataset}: index of {len(index):,} bytes, dataset {dataset_id}")
    return 0
