"""fanstore info: describe a dataset."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fanstore.dataset import Dataset


@click.command()
@click.argument("dataset", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(dataset: str, as_json: bool) -> int:
    """Describe DATASET: its content, its packs, and the bytes of its index for each file.

    DATASET may be an address, such as s3://bucket/prefix; its packs are then planned.

    If the index is damaged, or packs are missing, cut off or of another dataset, they are named,
    and the exit code is 3. (`fanstore verify` also checks the content.)

    \b
    Example:
      fanstore info imagenet.fan
    """
    from fanstore.errors import DatasetIncomplete
    from fanstore.reading.packs import open_any
    from fanstore.verify import glance

    with open_any(dataset) as opened:
        findings = glance(opened)
        described = {**describe(opened), "damaged": findings}
    if as_json:
        click.echo(json.dumps(described, indent=2))
    else:
        show(described)
    if findings:
        raise DatasetIncomplete(dataset, findings)
    return 0


def describe(dataset: Dataset) -> dict[str, Any]:
    """Returns counts, sizes in bytes, the codecs in use, and the bytes of the index per record."""
    from fanstore._native import lib
    from fanstore.arrays import np

    header = dataset.header
    records = header.record_count
    codecs = {
        int(getattr(lib, f"FAN_CODEC_{name}")): name.lower()
        for name in ("STORE", "LZ4", "LZ4HC", "ZSTD")
    }
    used = np.zeros(256, np.int64)  # a damaged record may name any codec
    for _, rows in dataset.record_pieces():
        regular = (rows["mode"] & 0o170000) == stat.S_IFREG
        used += np.bincount(rows["codec"][regular], minlength=256)
    names_bytes = header.sections[lib.FAN_SECTION_NAMES].count
    index_bytes = header.file_bytes
    packs = [dataset.pack_info(pack) for pack in range(dataset.pack_count)]
    return {
        "directory": dataset.source or str(dataset.directory),
        "dataset_id": dataset.dataset_id,
        "files": header.file_count,
        "directories": header.directory_count,
        "symbolic_links": header.symlink_count,
        "logical_bytes": header.logical_bytes,
        "stored_bytes": header.stored_bytes,
        "block_bytes": dataset.block_bytes,
        "files_by_codec": {name: int(used[number]) for number, name in codecs.items()},
        "packs": len(packs),
        "packs_everywhere": sum(pack.everywhere for pack in packs),
        "pack_bytes": sum(pack.file_bytes for pack in packs),
        "index_bytes": index_bytes,
        "index_names_bytes": names_bytes,
        "index_bytes_per_record": round((index_bytes - names_bytes) / records, 1),
        "index_name_bytes_per_record": round(names_bytes / records, 1),
    }


def show(info: dict[str, Any]) -> None:
    """Prints the facts about a dataset, a line for each."""
    from fanstore.wording import counted

    used = info["files_by_codec"].items()
    codecs = ", ".join(f"{count:,} {name}" for name, count in used if count)
    everywhere = f", {info['packs_everywhere']} of them for every node" * bool(
        info["packs_everywhere"]
    )
    saved = 100 * (1 - info["stored_bytes"] / info["logical_bytes"]) if info["logical_bytes"] else 0
    lines = {
        "dataset": info["directory"],
        "id": info["dataset_id"],
        "entries": f"{counted(info['files'], 'file')}, "
        f"{counted(info['directories'], 'directory')}, "
        f"{counted(info['symbolic_links'], 'symbolic link')}",
        "content": f"{counted(info['logical_bytes'], 'byte')}, stored in {info['stored_bytes']:,} "
        f"({saved:.1f} % saved)",
        "codecs": f"{codecs or 'none'}; blocks of {info['block_bytes']:,} bytes",
        "packs": f"{info['packs']:,}{everywhere}, {info['pack_bytes']:,} bytes",
        "index": f"{info['index_bytes']:,} bytes; {info['index_bytes_per_record']} a record "
        f"and {info['index_name_bytes_per_record']} of names",
    }
    for title, text in lines.items():
        click.echo(f"{title:<9}{text}")
