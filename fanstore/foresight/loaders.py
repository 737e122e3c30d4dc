"""The loaders of a job's processes: the expected reads of each, and how far it is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.dataset import NO_RECORD
from fanstore.foresight.announcement import Announcement
from fanstore.foresight.followed import BySamples, FollowedEpoch
from fanstore.foresight.next_epochs import Coming, Key
from fanstore.foresight.order.follow import Expected
from fanstore.foresight.order.samplers import samples
from fanstore.foresight.ranges import AROUND_BYTES
from fanstore.foresight.sample_files import Learnt
from fanstore.foresight.sink import Sink
from fanstore.messages.figures import OrderFigures
from fanstore.node.opens import samples_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Records = NDArray[np.uint64]

_DATASETS_MAX = 256  # the most of one process
_NAMES_MAX = 64  # the most names of samplers
_LEFT_MAX = 4096  # the most opens of a process in a mount that no loader expects
_GUESSED_MIN = 2048  # files of samples that are known before others are guessed
_UNCLAIMED_MAX = 256  # the most entries of lanes whose processes have no loaders

# The opens in one lane: its process and that process's parents, and record ids by mount (opens.py).
Opened = tuple[frozenset[int], dict[int, "NDArray[np.uint64]"]]
# Looks up NUL-terminated paths, whose number is given. Returns (mount, record ids) pairs.
Find = Callable[[Any, int], list[tuple[int, "NDArray[np.uint64]"]]]
Files = list[tuple[int, "NDArray[np.uint64]"]]  # the record ids of all samples, by mount

_ENTRIES_MAX = 1 << 25  # files and pieces of chosen samples
_FILES_PARTS = ("paths", "ranges", "chosen")  # the parts of a message about a dataset's files


class Loaders:
    """Receives announcements, and matches opens with them. find: looks paths up in the mounts.
    learnt: the known files of samples. doubt: called when the files of a dataset have proved
    wrong."""

    def __init__(
        self,
        find: Find,
        sink: Sink,
        learnt: Learnt | None = None,
        doubt: Callable[[], None] = lambda: None,
    ) -> None:
        self._find = find
        self._learnt = learnt or Learnt()
        self._doubt = doubt
        # Datasets of which an epoch was read in another order than by the list of their files.
        self._doubted: set[Key] = set()
        self._dataset_of: dict[Key, Key] = {}  # for each loader
        self._sink = sink
        self._coming = Coming(sink)
        self._files: dict[Key, list[tuple[int, NDArray[np.uint64]]]] = {}
        self._epochs: dict[Key, list[FollowedEpoch]] = {}
        # Epochs that began before the files of their samples were known, and the number of noted
        # reads at which to look again.
        self._unknown: dict[Key, tuple[Announcement, int]] = {}
        self._left: dict[tuple[int, int], NDArray[np.uint64]] = {}
        self._newest: dict[tuple[int, int], int] = {}  # how many of them the last look left
        self._unclaimed: list[Opened] = []
        self._matched: Counter[str] = Counter()
        self._strange = self._broken = self._begun = 0

    def announce(self, said: Announcement) -> None:
        """Begins an epoch of a loader, which ends the epoch before; or appends reads to the current
        one. Raises ValueError, with the reason, for an invalid announcement."""
        key = (said.pid, said.loader)
        if said.place != "more":
            known_otherwise = said.place == "instead" and key in self._epochs
            self._broken += known_otherwise
            self._end(key)
            self._unknown.pop(key, None)
        if said.sampler.get("samples") == 0:
            return
        if "paths" in said.parts:
            self._take_files(said)
        if said.place == "more" and key not in self._epochs:
            return  # the announcement before this one was refused
        parts = _parts(said)
        files = self._files_of(replace(said, parts=parts))
        self._dataset_of[key] = (said.pid, said.dataset)
        order = samples(said.sampler, parts)
        if said.place == "more":
            followed = self._followed(said, order, files)
            for epoch, (expected, by) in zip(self._epochs[key], followed, strict=True):
                epoch.extend(expected, by)
        else:
            self._begin(key, said, order, parts, files)
            self._begun += not known_otherwise
        # To find ranges, the code in the job has just opened files of the order.
        has_begun = said.name is not None or "ranges" not in said.parts
        for epoch in self._epochs[key] if has_begun else ():
            self._catch_up(said.pid, epoch)
        self._unclaimed = [each for each in self._unclaimed if said.pid not in each[0]]

    def _files_of(self, said: Announcement) -> Files:
        dataset = (said.pid, said.dataset)
        files = self._files.get(dataset)
        if said.name is not None and (not files or dataset in self._doubted):
            files = self._learnt.files(said.name)
            if not files:
                if said.place == "first":
                    self._unknown[said.pid, said.loader] = (said, _GUESSED_MIN)
                raise ValueError("the files of its samples are learnt while they are read")
        if not files:
            raise ValueError("the files of its dataset are not known")
        return files

    def _begin(
        self,
        key: Key,
        said: Announcement,
        order: NDArray[Any],
        parts: Mapping[str, bytes],
        files: Files,
    ) -> None:
        def expect(order: NDArray[Any]) -> list[Expected]:
            return [expected for expected, _ in self._followed(said, order, files)]

        followed = self._followed(said, order, files)
        tokens = self._coming.take(key, [expected for expected, _ in followed])
        known = str(said.sampler.get("name", said.sampler["kind"]))[:100]
        self._epochs[key] = [
            FollowedEpoch(self._sink, expected, token, known, by=by)
            for (expected, by), token in zip(followed, tokens, strict=True)
        ]
        self._coming.foresee(key, said.sampler, parts, expect, tokens)

    def _followed(
        self, said: Announcement, order: NDArray[Any], files: Files
    ) -> list[tuple[Expected, BySamples | None]]:
        """Returns the reads of a loader in each mount, and how to follow it if it reads parts of
        files."""
        opens_each = said.name is None and "ranges" in said.parts and len(order) > 0
        return [
            self._by_ranges(said, expected, records)
            if opens_each and len(expected.records) == len(order)
            else (expected, self._by_samples(said, expected, order, records))
            for expected, (_, records) in zip(_expected(said, order, files), files, strict=True)
        ]

    def _by_samples(
        self, said: Announcement, expected: Expected, order: NDArray[Any], records: Records
    ) -> BySamples | None:
        """Returns how to follow a loader by the notes of its samples; None if it reads no pieces of
        files."""
        if said.name is None or not self._learnt.has_pieces(expected.mount, records):
            return None
        rows = records[np.minimum(order, len(records) - 1)]
        counts = (rows != NO_RECORD).sum(axis=1) * (order < len(records))
        drawn = replace(
            expected,
            mount=samples_of(said.name.number),
            records=order.astype(np.uint64),
            batch=said.sampler["batch"],
        )
        # some datasets read a batch at once
        under_way = max(1, drawn.workers) * drawn.batch
        return BySamples(drawn, np.cumsum(counts), under_way)

    def _by_ranges(
        self, said: Announcement, expected: Expected, records: Records
    ) -> tuple[Expected, BySamples | None]:
        """Returns the reads of a loader that opens a large file for each sample, and reads the
        range of it that is announced. records: the files of the ranges, all in this mount."""
        opened = [(expected.mount, records.ravel())]
        count = len(expected.records)
        rows = np.full((count, 1), NO_RECORD, np.uint64)
        for _, found in self._learnt.files_of_ranges(opened, said.parts["ranges"]):
            rows = _picked(found, np.arange(count))
        counts = (rows != NO_RECORD).sum(axis=1)
        whole = np.flatnonzero(counts == 0)  # samples in files that are not large
        rows[whole, 0] = expected.records[whole]
        ends = np.cumsum(np.maximum(counts, 1))
        return replace(expected, records=rows[rows != NO_RECORD]), BySamples(expected, ends, 1)

    def _take_files(self, said: Announcement) -> None:
        mine = [key[1] for key in self._files if key[0] == said.pid]
        if len(mine) >= _DATASETS_MAX and said.dataset not in mine:
            raise ValueError(f"process {said.pid} has more than {_DATASETS_MAX} datasets")
        paths = said.parts["paths"]
        count = int(np.count_nonzero(np.frombuffer(paths, np.uint8) == 0))
        if count == 0 or count % said.files_per_sample:
            raise ValueError(f"{count} paths are not {said.files_per_sample} for each sample")
        found = self._find(paths, count)
        if said.name is not None and "ranges" in said.parts:
            # such datasets map their files
            files = self._learnt.files_of_ranges(found, said.parts["ranges"], AROUND_BYTES)
            if "chosen" in said.parts:
                chosen = np.frombuffer(said.parts["chosen"], np.int64)
                files = [(mount, _picked(rows, chosen)) for mount, rows in files]
        else:
            files = [(mount, ids.reshape(-1, said.files_per_sample)) for mount, ids in found]
        self._files[said.pid, said.dataset] = files

    def note(self, opened: Sequence[Opened]) -> None:
        """Matches opens, in the form that Opens.take returns."""
        for pid in {key[0] for key in self._epochs}:
            mine = _of_process(pid, opened)
            for mount, opened_here in mine.items():
                records = opened_here
                epochs = self._epochs_read(pid, mount)
                for at, (key, epoch) in enumerate(epochs, 1):
                    was_broken = epoch.follower.broken
                    # Opens of other loaders, which threads read at the same time.
                    of_others = np.zeros(len(records), bool)
                    for _, each in epochs[at:]:
                        of_others |= each.follower.expects(records)
                    of_others &= ~epoch.follower.expects(records)
                    left = epoch.note(records[~of_others])
                    records = np.append(records[of_others], left)
                    if epoch.follower.broken and not was_broken:
                        self._doubted.add(self._dataset_of[key])
                        with suppress(OSError):  # a full disk
                            self._doubt()
                for epoch in self._epochs_in(pid, mount):
                    epoch.count(opened_here)
                before = self._left.get((pid, mount), records[:0])
                if len(records) < len(opened_here):
                    # Some were expected. What was left long before them belongs to no epoch that
                    # will be announced: samples may open files that they draw themselves.
                    newest = self._newest.get((pid, mount), 0)
                    before = before[max(0, len(before) - newest) :]
                self._left[pid, mount] = np.append(before, records)[-_LEFT_MAX:]
                self._newest[pid, mount] = min(len(records), _LEFT_MAX)
        known = {key[0] for key in self._epochs}
        # Opens of an unknown process count for all loaders; the loaders may be announced later.
        self._unclaimed += [each for each in opened if not (each[0] & known if each[0] else known)]
        self._unclaimed = self._unclaimed[-_UNCLAIMED_MAX:]
        for key, (said, least) in list(self._unknown.items()):
            if self._learnt.noted >= least:
                self._unknown[key] = (said, 2 * self._learnt.noted)
                with suppress(ValueError, OSError):  # then this epoch stays unknown
                    self._guess(key, said)

    def _guess(self, key: Key, said: Announcement) -> None:
        """Begins to follow an epoch in its middle, if the files of samples that were not read yet
        can be guessed; later guesses replace earlier ones."""
        assert said.name is not None
        files = self._learnt.files(said.name)
        if not self._learnt.has_guesses(said.name):
            return
        self._begun += key not in self._epochs
        self._end(key)
        parts = _parts(said)
        order = samples(said.sampler, parts)
        left = order[~np.isin(order, self._learnt.samples_read(said.name))]
        self._dataset_of[key] = (said.pid, said.dataset)
        self._begin(key, said, left, parts, files)

    def processes(self) -> set[int]:
        """Returns the processes that have announced something and still exist."""
        return {pid for pid, _ in self._epochs}

    def _epochs_read(self, pid: int, mount: int) -> list[tuple[Key, FollowedEpoch]]:
        """Returns the epochs of a process in one mount with their loaders, the newest first,
        because the program may have abandoned an older one."""
        of_process = [pair for pair in reversed(self._epochs.items()) if pair[0][0] == pid]
        return [
            (key, each) for key, epochs in of_process for each in epochs if each.follows == mount
        ]

    def _epochs_in(self, pid: int, mount: int) -> list[FollowedEpoch]:
        """Returns the epochs of a process whose reads are in a mount."""
        of_process = [epochs for key, epochs in self._epochs.items() if key[0] == pid]
        return [each for epochs in of_process for each in epochs if each.expected.mount == mount]

    def _catch_up(self, pid: int, epoch: FollowedEpoch) -> None:
        """Matches `epoch` with earlier opens of a process that no epoch has matched."""
        mount = epoch.follows
        early = _of_process(pid, self._unclaimed).get(mount, np.empty(0, np.uint64))
        left = self._left.get((pid, mount), early[:0])
        self._left[pid, mount] = epoch.catch_up(np.append(early, left))[-_LEFT_MAX:]

    def forget(self, is_alive: Callable[[int], bool]) -> None:
        """Forgets processes that have ended."""
        keys = [*self._epochs, *self._files, *self._unknown]
        gone = {pid for pid, _ in keys if not is_alive(pid)}
        for key in [key for key in self._epochs if key[0] in gone]:
            self._end(key)
        for table in (self._files, self._left, self._newest, self._dataset_of, self._unknown):
            for key in [key for key in table if key[0] in gone]:
                del table[key]
        self._doubted = {key for key in self._doubted if key[0] not in gone}
        self._coming.forget(gone.__contains__)

    def end(self) -> None:
        """Ends all epochs. The counts stay."""
        for key in list(self._epochs):
            self._end(key)
        self._coming.forget(lambda _: True)

    def _end(self, key: tuple[int, int]) -> None:
        for epoch in self._epochs.pop(key, []):
            self._count(epoch, self._matched)
            self._strange += epoch.follower.strange
            self._broken += epoch.follower.broken
            epoch.end()

    def _count(self, epoch: FollowedEpoch, matched: Counter[str]) -> None:
        known = epoch.known if epoch.known in matched or len(matched) < _NAMES_MAX else "others"
        matched[known] += epoch.matched

    def figures(self) -> OrderFigures:
        """Returns counts: `epochs` announced and understood, opens `predicted` (by sampler),
        unexpected opens (`strange`), and epochs that were read in another order (`broken`)."""
        matched = Counter(self._matched)
        live = [epoch for epochs in list(self._epochs.values()) for epoch in epochs]
        for epoch in live:
            self._count(epoch, matched)
        return OrderFigures(
            epochs=self._begun,
            predicted=sum(matched.values()),
            strange=self._strange + sum(each.follower.strange for each in live),
            broken=self._broken + sum(each.follower.broken for each in live),
            samplers=dict(matched),
            refused={},
        )


def _picked(rows: Records, chosen: NDArray[np.int64]) -> Records:
    """Returns the chosen rows, with NO_RECORD for those that do not exist. Raises ValueError if
    they would be too large."""
    if len(chosen) * rows.shape[1] > _ENTRIES_MAX:
        raise ValueError("its samples have too many pieces")
    found = np.full((len(chosen), rows.shape[1]), NO_RECORD, np.uint64)
    there = (chosen >= 0) & (chosen < len(rows))
    found[there] = rows[chosen[there]]
    return found


def _parts(said: Announcement) -> dict[str, bytes]:
    return {n: bytes(part) for n, part in said.parts.items() if n not in _FILES_PARTS}


def _expected(said: Announcement, order: NDArray[Any], files: Files) -> list[Expected]:
    """Returns the reads of a loader in each mount, if it draws the samples `order`."""
    return [_of_mount(said, order, mount, records) for mount, records in files]


def _of_mount(
    said: Announcement, order: NDArray[Any], mount: int, records: NDArray[np.uint64]
) -> Expected:
    if said.name is not None:  # the files of samples beyond are not known yet
        order = order[order < len(records)]
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
        said.sampler["kind"] == "shards",
    )


def _of_process(pid: int, opened: Iterable[Opened]) -> dict[int, NDArray[np.uint64]]:
    """Returns the opens of a process and its children by mount, including those of unknown
    processes."""
    mine: dict[int, list[NDArray[np.uint64]]] = {}
    for family, by_mount in opened:
        if pid in family or not family:
            for mount, records in by_mount.items():
                mine.setdefault(mount, []).append(records)
    return {mount: side_by_side(parts) for mount, parts in mine.items()}


def side_by_side(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Merges the opens of several lanes in about the order in which they happened, on the
    assumption that all lanes opened at the same rate."""
    when = np.concatenate([np.arange(len(part)) / len(part) for part in parts])
    return np.concatenate(parts)[np.argsort(when, kind="stable")]
