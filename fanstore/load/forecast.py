"""Says beforehand what becomes of a dataset on nodes like this one."""

from __future__ import annotations

from dataclasses import dataclass

from fanstore.dataset import open_dataset
from fanstore.load.local_dir import LocalDirectory
from fanstore.load.room import less, room_of
from fanstore.world import World


@dataclass(frozen=True)
class Forecast:
    """What a dataset needs, and what of it a node has room for.

    needed_bytes: of packs and index; kept_bytes: of packs, where not all has room;
    nodes: how many like this one hold the packs together, None where none holds anything.
    """

    name: str
    files: int
    packs: int
    pack_bytes: int
    index_bytes: int
    local_dir: str
    fits: bool
    kept_bytes: int
    nodes: int | None


def forecast(path: str, directory: LocalDirectory, local_bytes: int | None) -> Forecast:
    """Looks at the dataset at `path` and at the room that there is now. What earlier jobs kept of
    it is taken for used up. Raises FanstoreError where there is no dataset."""
    with open_dataset(path) as dataset:
        header = dataset.header
        pack_bytes = sum(dataset.pack_info(p).file_bytes for p in range(dataset.pack_count))
        room = less(room_of(World(), directory, local_bytes), int(header.file_bytes))
        share_bytes = max(0, room.share_bytes)
        return Forecast(
            dataset.name,
            int(header.file_count),
            dataset.pack_count,
            pack_bytes,
            int(header.file_bytes),
            directory.path,
            pack_bytes <= room.bytes,
            min(pack_bytes, share_bytes),
            -(-pack_bytes // share_bytes) if share_bytes else None,
        )


def forecast_lines(found: Forecast) -> list[str]:
    """Returns the same for people."""
    gib = 1 << 30
    lines = [
        f"{found.name}: {found.files:,} files in {found.packs} packs, "
        f"{found.pack_bytes / gib:,.2f} GiB, "
        f"and an index of {found.index_bytes / gib:,.2f} GiB in memory",
    ]
    if found.fits:
        return [*lines, f"  has room in {found.local_dir}: staged before the command starts"]
    rest = found.pack_bytes - found.kept_bytes
    lines.append(
        f"  does not fit {found.local_dir}: {found.kept_bytes / gib:,.2f} GiB are kept there; "
        f"alone this node reads {rest / gib:,.2f} GiB from the shared file system in each epoch"
    )
    if found.nodes is None:
        return [*lines, "  nothing of it has room here: use another --local-dir"]
    return [*lines, f"  {found.nodes} nodes like this one hold it together"]
