"""The loaders of a job's processes: what each will read, and how far it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.dataset import NO_RECORD
from fanstore.order.expected import Expected
from fanstore.order.follow import Follower
from fanstore.order.torch_samplers import samples
from fanstore.serve.announcement import Announcement
from fanstore.serve.coming import Coming
from fanstore.serve.sink import Sink

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DATASETS_MAX = 256  # of one process
_PIECE = 32  # opens that a follower takes at once, at least: the order in them does not count
_LEFT_MAX = 4096  # opens that no loader expects, of one process and mount
_UNCLAIMED_MAX = 256  # of lanes whose processes have no loaders

# What one lane opened: its process with the parents of that, record ids by mount (opens.py).
Opened = tuple[frozenset[int], dict[int, "NDArray[np.uint64]"]]
# The record ids of paths, by mount: NUL-terminated paths and their number, to (mount, ids) pairs.
Find = Callable[[Any, int], list[tuple[int, "NDArray[np.uint64]"]]]


@dataclass
class Stream:
    """One mount's part of what one loader reads in one epoch. token: what it is to the sink."""

    pid: int
    expected: Expected
    follower: Follower
    known: str
    token: int = 0


class Loaders:
    """Takes announcements and opens. find: looks paths up in the mounts."""

    def __init__(self, find: Find, sink: Sink) -> None:
        self._find = find
        self._sink = sink
        self._coming = Coming(sink)
        self._files: dict[tuple[int, int], list[tuple[int, NDArray[np.uint64]]]] = {}
        self._streams: dict[tuple[int, int], list[Stream]] = {}
        self._left: dict[tuple[int, int], NDArray[np.uint64]] = {}
        self._unclaimed: list[Opened] = []
        self._matched: Counter[str] = Counter()
        self._strange = self._broken = self._epochs = 0

    def announce(self, said: Announcement) -> None:
        """A loader begins an epoch; what it read before is over. Raises ValueError for what makes
        no sense, with the reason."""
        key = (said.pid, said.loader)
        self._end(key)
        if said.sampler.get("samples") == 0:
            return
        if "paths" in said.parts:
            self._take_files(said)
        files = self._files.get((said.pid, said.dataset))
        if not files:
            raise ValueError("the files of its dataset are not known")
        parts = {name: bytes(part) for name, part in said.parts.items() if name != "paths"}
        order = samples(said.sampler, parts)
        begun = _expected(said, order, files)
        tokens = self._coming.take(key, begun)
        known = said.sampler["kind"]
        streams = [
            Stream(said.pid, expected, Follower(expected), known, token)
            for expected, token in zip(begun, tokens, strict=True)
        ]
        self._coming.foresee(
            key, said.sampler, parts, lambda order: _expected(said, order, files), tokens
        )
        for stream in streams:
            self._catch_up(stream)
        self._unclaimed = [each for each in self._unclaimed if said.pid not in each[0]]
        self._streams[key] = streams
        self._epochs += 1

    def _take_files(self, said: Announcement) -> None:
        mine = [key[1] for key in self._files if key[0] == said.pid]
        if len(mine) >= _DATASETS_MAX and said.dataset not in mine:
            raise ValueError(f"process {said.pid} has more than {_DATASETS_MAX} datasets")
        paths = said.parts["paths"]
        count = int(np.count_nonzero(np.frombuffer(paths, np.uint8) == 0))
        if count == 0 or count % said.files_per_sample:
            raise ValueError(f"{count} paths are not {said.files_per_sample} for each sample")
        self._files[said.pid, said.dataset] = [
            (mount, ids.reshape(-1, said.files_per_sample))
            for mount, ids in self._find(paths, count)
        ]

    def note(self, opened: Sequence[Opened]) -> None:
        """Takes what was opened, as Opens.take gives it."""
        for pid in {key[0] for key in self._streams}:
            mine = _of_process(pid, opened)
            for mount, records in mine.items():
                for stream in self._streams_of(pid, mount):
                    records = self._note(stream, records)
                left = np.append(self._left.get((pid, mount), records[:0]), records)
                self._left[pid, mount] = left[-_LEFT_MAX:]
        known = {key[0] for key in self._streams}
        # Whose process is not known counts for all loaders, of which there may be none yet.
        self._unclaimed += [each for each in opened if not (each[0] & known if each[0] else known)]
        self._unclaimed = self._unclaimed[-_UNCLAIMED_MAX:]

    def processes(self) -> set[int]:
        """Returns the processes that have announced something, and are there."""
        return {pid for pid, _ in self._streams}

    def _streams_of(self, pid: int, mount: int) -> list[Stream]:
        """Returns the streams of a process, the newest first: an old one may be given up."""
        of_process = [each for key, each in reversed(self._streams.items()) if key[0] == pid]
        return [each for streams in of_process for each in streams if each.expected.mount == mount]

    def _note(self, stream: Stream, records: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Has a stream take opens; returns those that may be of others."""
        follower = stream.follower
        if follower.broken or not len(records):
            return records
        step = max(_PIECE, stream.expected.reordered)
        left = []
        for at in range(0, len(records), step):
            follower.note(records[at : at + step])
            left.append(follower.left)
        if follower.broken:
            self._sink.end(stream.token)
        else:
            self._sink.advance(stream.token, follower.position, follower.read)
        return np.concatenate(left)

    def _catch_up(self, stream: Stream) -> None:
        """Has a new stream take what was opened since its loader began, and nobody expected."""
        pid, mount = stream.pid, stream.expected.mount
        early = _of_process(pid, self._unclaimed).get(mount, np.empty(0, np.uint64))
        left = self._left.get((pid, mount), early[:0])
        position = stream.follower.catch_up(np.append(early, left))
        self._left[pid, mount] = stream.follower.left[-_LEFT_MAX:]
        if position:
            self._sink.advance(stream.token, position, stream.follower.read)

    def forget(self, is_alive: Callable[[int], bool]) -> None:
        """Drops what is known of processes that have ended."""
        gone = {pid for pid, _ in [*self._streams, *self._files] if not is_alive(pid)}
        for key in [key for key in self._streams if key[0] in gone]:
            self._end(key)
        for table in (self._files, self._left):
            for key in [key for key in table if key[0] in gone]:
                del table[key]
        self._coming.forget(gone.__contains__)

    def end(self) -> None:
        """Ends what is known of all of them; the counts stay."""
        for key in list(self._streams):
            self._end(key)
        self._coming.forget(lambda _: True)

    def _end(self, key: tuple[int, int]) -> None:
        for stream in self._streams.pop(key, []):
            self._count(stream, self._matched)
            self._strange += stream.follower.strange
            self._broken += stream.follower.broken
            if not stream.follower.broken:
                self._sink.end(stream.token)

    def _count(self, stream: Stream, matched: Counter[str]) -> None:
        matched[stream.known] += stream.follower.matched

    def figures(self) -> dict[str, Any]:
        """Returns counts: `epochs` announced and understood, opens `predicted` (by sampler) and
        `strange`, epochs `broken` off for another order."""
        matched = Counter(self._matched)
        live = [stream for streams in list(self._streams.values()) for stream in streams]
        for stream in live:
            self._count(stream, matched)
        return {
            "epochs": self._epochs,
            "predicted": sum(matched.values()),
            "samplers": dict(matched),
            "strange": self._strange + sum(each.follower.strange for each in live),
            "broken": self._broken + sum(each.follower.broken for each in live),
        }


def _expected(
    said: Announcement, order: NDArray[Any], files: Iterable[tuple[int, NDArray[np.uint64]]]
) -> list[Expected]:
    """Returns what a loader reads of each mount when it draws `order`. files: the record ids of all
    samples, by mount."""
    return [_of_mount(said, order, mount, records) for mount, records in files]


def _of_mount(
    said: Announcement, order: NDArray[Any], mount: int, records: NDArray[np.uint64]
) -> Expected:
    if len(order) and (order.min() < 0 or order.max() >= len(records)):
        raise ValueError(f"the sampler draws {order.max()} of {len(records)} samples")
    reads = records[order].ravel()
    return Expected(
        mount,
        reads[reads != NO_RECORD],
        said.workers,
        said.sampler["batch"] * records.shape[1],
        said.prefetch_factor,
        said.in_order,
    )


def _of_process(pid: int, opened: Iterable[Opened]) -> dict[int, NDArray[np.uint64]]:
    """Returns what a process and its children opened, by mount; what nobody knows to be of another
    process, too."""
    mine: dict[int, list[NDArray[np.uint64]]] = {}
    for family, by_mount in opened:
        if pid in family or not family:
            for mount, records in by_mount.items():
                mine.setdefault(mount, []).append(records)
    return {mount: side_by_side(parts) for mount, parts in mine.items()}


def side_by_side(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Returns what several lanes opened in about the order in which that was: at equal speed."""
    when = np.concatenate([np.arange(len(part)) / len(part) for part in parts])
    return np.concatenate(parts)[np.argsort(when, kind="stable")]
