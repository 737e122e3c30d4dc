"""Counts the bytes of the files to fetch, by outcome."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fanstore.progress import Progress
from fanstore.wording import counted, show_bytes


@dataclass
class Tally:
    """Stored bytes, by outcome. to_disk, to_cache: fetched to this node's disk or block cache;
    to_memory: read into memory from its disk, or in place; there: were in memory or in the cache
    before; no_room: the cache had no room; failed: could not be read."""

    to_disk: int = 0
    to_cache: int = 0
    to_memory: int = 0
    there: int = 0
    no_room: int = 0
    failed: int = 0

    @property
    def brought(self) -> int:
        """The bytes that were not on this node before and are now."""
        return self.to_disk + self.to_cache + self.to_memory


class Count:
    """A tally, and the progress bar that shows it."""

    def __init__(self, progress: Progress) -> None:
        self.tally = Tally()
        self._progress = progress

    def add(self, name: str, amount_bytes: int) -> None:
        """Adds bytes to a field of the tally."""
        setattr(self.tally, name, getattr(self.tally, name) + amount_bytes)
        self._progress.advance(amount_bytes)


def as_dict(tally: Tally, files: int) -> dict[str, int]:
    """Returns a tally as a dictionary, for programs that read JSON."""
    rows = {f"{each.name}_bytes": getattr(tally, each.name) for each in fields(tally)}
    return {"files": files, **rows}


def line(tally: Tally, files: int) -> str:
    """Returns a tally as a line for people. files: the number of files."""
    ways = (
        (tally.to_disk, "to the local disk"), (tally.to_cache, "to the block cache"),
        (tally.to_memory, "to memory"),
    )  # fmt: skip
    brought = [f"{show_bytes(amount)} {way}" for amount, way in ways if amount]
    said = [f"{counted(files, 'file')}: brought {', '.join(brought) or 'nothing'}"]
    if tally.there:
        said.append(f"{show_bytes(tally.there)} there already")
    if tally.no_room:
        said.append(f"{show_bytes(tally.no_room)} found no room in the block cache")
    if tally.failed:
        said.append(f"{show_bytes(tally.failed)} could not be read")
    return "; ".join(said)
