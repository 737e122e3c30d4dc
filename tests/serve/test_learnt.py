"""Learning which files samples are, from notes and in files."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from trace_files import note

from fanstore._native import lib
from fanstore.dataset import NO_RECORD
from fanstore.foresight.announcement import Name
from fanstore.foresight.kept import KeptFiles
from fanstore.foresight.sample_files import Learnt, SampleFiles, Told
from fanstore.node.opens import READ, Tagged

ID = "0123456789abcdef" * 2
NAME = Name("job.Named", 7)
NONE = 0xFFFFFFFF


def sample(number: int, dataset: int = 7, joins: int = 0) -> int:
    return note(int(lib.FAN_NOTE_SAMPLE), joins, number, dataset)


def opened(record: int, mount: int = 0) -> int:
    return note(int(lib.FAN_NOTE_OPEN), mount, record)


def noted(*notes: int) -> np.ndarray:
    return np.array(notes, np.uint64)


def pairs(tagged: Tagged) -> list[tuple[int, int]]:
    return [(int(each["sample"]), int(each["file"])) for each in tagged.reads()]


def test_opens_are_of_the_sample_noted_before_them() -> None:
    tagged = Tagged()
    time = note(int(lib.FAN_NOTE_TIME), 0, 3)
    tagged.take(
        0, 1, noted(opened(9), sample(3), time, opened(30), opened(31, 2), sample(4), sample(NONE)),
        False,
    )  # fmt: skip
    assert pairs(tagged) == [(3, 30), (3, 2 << 32 | 31)]
    tagged.take(0, 1, noted(opened(8), sample(NONE)), False)
    assert pairs(tagged) == []


def test_the_files_of_a_batch_are_divided_among_its_samples() -> None:
    tagged = Tagged()
    first, *joined = [sample(3), sample(5, joins=1), sample(4, joins=1)]
    opens = [opened(30), opened(31), opened(50), opened(51), opened(40), opened(41)]
    tagged.take(0, 1, noted(first, *joined[:1]), False)
    tagged.take(0, 1, noted(*joined[1:], *opens[:3]), False)
    assert pairs(tagged) == []
    tagged.take(0, 1, noted(*opens[3:], sample(NONE), sample(7), opened(70), sample(NONE)), False)
    assert pairs(tagged) == [(3, 30), (3, 31), (5, 50), (5, 51), (4, 40), (4, 41), (7, 70)]
    tagged.take(0, 1, noted(first, *joined, *opens[:4], sample(NONE)), False)  # uneven
    tagged.take(0, 1, noted(first, *joined, sample(NONE)), False)  # none
    assert pairs(tagged) == []


def test_a_sample_goes_on_in_the_next_piece() -> None:
    tagged = Tagged()
    tagged.take(0, 1, noted(sample(3), opened(30)), False)
    tagged.take(1, 5, noted(sample(4), opened(40)), False)
    assert pairs(tagged) == []
    tagged.take(0, 1, noted(opened(31)), False)
    tagged.take(1, 5, noted(sample(NONE)), False)
    tagged.take(0, 1, noted(sample(NONE)), False)
    assert sorted(pairs(tagged)) == [(3, 30), (3, 31), (4, 40)]


@pytest.mark.parametrize(("owner", "lost"), [(2, False), (1, True)])
def test_a_sample_whose_end_nobody_saw_says_nothing(owner: int, lost: bool) -> None:
    tagged = Tagged()
    tagged.take(0, 1, noted(sample(3), opened(30)), False)
    tagged.take(0, owner, noted(opened(77), sample(4), opened(40), sample(NONE)), lost)
    assert pairs(tagged) == [(4, 40)]


def test_threads_of_a_process_open_files_in_one_reading() -> None:
    tagged = Tagged()
    for lane in (0, 1, 2):  # the thread that reads, and two that it waits for
        opens = [] if lane == 0 else [opened(30 + lane)]
        tagged.take(lane, 1, noted(sample(3), *opens, sample(NONE)), False, process=9)
    tagged.take(3, 1, noted(sample(3), opened(33), sample(NONE)), False, process=8)
    tagged.take(0, 1, noted(sample(3), sample(NONE)), False, process=9)
    tagged.take(1, 1, noted(sample(3), opened(34), sample(NONE)), False, process=9)
    reads = tagged.reads()
    assert reads["file"].tolist() == [31, 32, 33, 34]
    first, same, other, later = reads["visit"].tolist()
    assert first == same and len({first, other, later}) == 3


def files(found: SampleFiles, count: int) -> list[list[int]]:
    rows = dict(found.by_mount()).get(0, np.empty((0, 0), np.uint64))
    known = [[int(each) for each in row if each != NO_RECORD] for row in rows]
    return known + [[]] * (count - len(known))


def add(found: SampleFiles, *reads: tuple[int, int, int]) -> None:
    found.add(*np.array(reads, np.int64).reshape(-1, 3).T)


def test_files_that_are_opened_by_chance_are_dropped() -> None:
    found = SampleFiles()
    add(found, (0, 0, 5), (0, 0, 6), (1, 1, 7), (0, 2, 5), (0, 2, 9))  # sample, visit, file
    assert files(found, 3) == [[5], [7], []]
    add(found, (1, 3, 8), (2, 4, 1), (2, 4, 1))
    assert files(found, 3) == [[5], [], [1]]
    add(found, (2, 5, 1), (1 << 40, 6, 3))
    assert files(found, 3) == [[5], [], [1]]


def test_files_of_several_mounts() -> None:
    found = SampleFiles()
    add(found, (0, 0, 5), (0, 0, 1 << 32 | 6), (1, 1, 1 << 32 | 7))
    by_mount = {mount: rows.tolist() for mount, rows in found.by_mount()}
    assert by_mount == {0: [[5]], 1: [[6], [7]]}


def test_samples_far_apart_take_little_memory() -> None:
    found = SampleFiles()
    add(found, (3, 0, 5), ((1 << 27) - 1, 1, 6))
    [(_, rows)] = found.by_mount()
    assert rows.tolist() == [[NO_RECORD]] * 3 + [[5]]


def read(samples: list[int], first: int = 0) -> np.ndarray:
    rows = np.zeros(len(samples), READ)
    rows["dataset"], rows["sample"] = NAME.number, samples
    rows["visit"] = np.arange(len(samples)) + first
    rows["file"] = 10 + np.array(samples)
    return rows


def packed(records: int) -> Any:
    """A dataset with so many records and no large files."""
    pieces = SimpleNamespace(first=records, end=records)
    return SimpleNamespace(pieces=pieces, header=SimpleNamespace(record_count=records))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptFiles:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return KeptFiles(str(tmp_path / "data"), ID, print)


def test_ranks_that_learnt_different_samples_keep_them_all(kept: KeptFiles) -> None:
    ranks = [Learnt([packed(100)], [kept]) for _ in range(2)]
    for rank, learnt in enumerate(ranks):
        assert learnt.files(NAME) == []
        learnt.note(read([rank, rank + 2]))
    for learnt in ranks:
        learnt.end()
    [(mount, rows)] = Learnt([packed(100)], [kept]).files(NAME)
    assert (mount, rows.ravel().tolist()) == (0, [10, 11, 12, 13])


def test_a_rank_uses_what_others_tell() -> None:
    heard: deque[Told] = deque()
    one, other = Learnt(heard=deque()), Learnt(heard=heard)
    one.files(NAME)
    one.note(read([0, 2]))
    told = one.tell()
    assert one.tell() == []
    heard.extend(told)  # before the other one knows the dataset
    heard.extend((Name("another", NAME.number), pairs) for _, pairs in told)
    [(mount, rows)] = other.files(NAME)
    assert (mount, rows.ravel().tolist()) == (0, [10, NO_RECORD, 12])
    other.note(read([1]))
    one.note(read([3]))
    heard.extend(one.tell())
    [(_, rows)] = other.files(NAME)
    assert rows.ravel().tolist() == [10, 11, 12, 13]


def test_what_a_rank_has_read_itself_counts_more_than_what_it_is_told() -> None:
    """Of two shards with the same name, each rank knows its own, whatever the other one tells."""
    heard: deque[Told] = deque()
    one, other = Learnt(heard=deque()), Learnt(heard=heard)
    one.files(NAME)
    other.files(NAME)
    wrong = read([0, 1, 2])
    wrong["file"] += 40
    one.note(wrong)
    other.note(read([0, 1]))
    heard.extend(one.tell())
    assert other.files(NAME)[0][1].ravel().tolist()[:3] == [10, 11, 52]
    other.note(read([2], first=2))
    assert other.files(NAME)[0][1].ravel().tolist()[:3] == [10, 11, 12]


def test_many_messages_are_taken_at_once() -> None:
    heard: deque[Told] = deque()
    name = Name("job.Many", 9)
    keys = np.arange(200_000, dtype=np.int64) << 36 | 7
    heard.extend((name, part.tobytes()) for part in np.split(keys, 4000))
    [(_, rows)] = Learnt(heard=heard).files(name)
    assert rows.shape == (200_000, 1)
    assert (rows == 7).all()


def test_names_of_other_datasets_get_nothing(kept: KeptFiles) -> None:
    learnt = Learnt([packed(100)], [kept])
    learnt.files(NAME)
    learnt.note(read([0, 1]))
    assert learnt.files(Name("another", NAME.number)) == []
    assert len(learnt.files(NAME)) == 1
    learnt.end()
    assert Learnt([packed(100)], [kept]).files(Name("job.Other", 7)) == []


@pytest.mark.parametrize("records", [100, 5])
def test_what_is_kept_is_not_trusted(kept: KeptFiles, records: int, tmp_path: Path) -> None:
    learnt = Learnt([packed(100)], [kept])
    learnt.files(NAME)
    learnt.note(read([0, 1]))
    learnt.end()
    [path] = (tmp_path / "data" / "learnt").iterdir()
    if records == 100:
        whole = bytearray(path.read_bytes())
        whole[-1] ^= 1
        path.write_bytes(whole)
    assert Learnt([packed(records)], [kept]).files(NAME) == []


@pytest.mark.soak
def test_many_reads_are_sorted_now_and_then(kept: KeptFiles) -> None:
    name = Name("large", NAME.number)
    learnt = Learnt()
    learnt.files(name)
    order = np.random.RandomState(0).permutation(200_000)
    for epoch in range(2):
        for at in range(0, 200_000, 5000):
            learnt.note(read(order[at : at + 5000].tolist(), epoch * 200_000 + at))
    [(_, rows)] = learnt.files(name)
    assert np.array_equal(rows.ravel(), 10 + np.arange(200_000))
