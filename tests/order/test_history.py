"""What a reader opened, and whether it comes again, for random orders and reorderings."""

from __future__ import annotations

import numpy as np
import pytest

from fanstore.foresight.order.history import History, begins_as

_MOST = 1 << 16


def shuffled(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(count).astype(np.uint64)


def out_of_order(order: np.ndarray, by: int, seed: int) -> np.ndarray:
    """Returns an order in which nothing is further than `by` from its place."""
    late = np.random.default_rng(seed).uniform(0, by, len(order))
    return order[np.argsort(np.arange(len(order)) + late, kind="stable")]


@pytest.mark.parametrize("count", [64, 100, 300, 5000])
@pytest.mark.parametrize("seed", range(5))
def test_an_order_that_comes_again_is_seen_soon(count: int, seed: int) -> None:
    history, order = History(count, _MOST), shuffled(seed, count)
    history.note(order)
    assert history.repeats(0) is None
    history.note(out_of_order(order, max(1, count // 16), seed)[: max(8, count // 6)])
    found = history.repeats(0)
    assert found is not None
    start, end, again = found
    assert 0 <= start <= history.count - count and abs(end - start - count) <= count // 4
    assert abs(again - start - count) <= count // 4
    assert len(history.opens(start, end)) == end - start


@pytest.mark.parametrize("seed", range(50))
def test_another_order_is_not_the_same(seed: int) -> None:
    history = History(1000, _MOST)
    for epoch in range(4):
        for piece in np.split(shuffled(4 * seed + epoch, 1000), 20):
            history.note(piece)
            assert history.repeats(0) is None


def test_files_that_are_opened_twice_at_once_count_once() -> None:
    history = History(500, _MOST)
    order = shuffled(1, 500)
    history.note(np.repeat(order, 3))
    assert history.count == 500
    assert history.opens(0, 500).tolist() == order.tolist()
    history.note(np.repeat(order[:100], 2))
    assert history.repeats(0) is not None


def test_it_ends_where_it_went_another_way_before() -> None:
    history = History(2000, _MOST)
    training, fixed = np.arange(1000, 2000), shuffled(2, 1000)
    for epoch in range(2):
        history.note(training[shuffled(epoch, 1000).astype(int)])
        start = history.count
        history.note(fixed)
    history.went_away(history.count)
    history.note(training)
    since = history.count
    history.note(fixed[:100])
    found = history.repeats(since)
    assert found is not None
    assert (found[0] - start) in range(101) and found[1] == start + 1000


def test_it_remembers_so_much_and_no_more() -> None:
    history = History(300, 1000)
    for _ in range(20):
        history.note(shuffled(1, 300))
    assert history.count == 6000
    assert history.begun is not None and 500 < len(history.begun) <= 1000
    start, end, _ = history.repeats(0) or (0, 0, 0)
    assert len(history.opens(start, end)) == 300
    assert len(history.opens(0, 10**9)) <= 1000


def test_ids_of_no_record_are_left_out() -> None:
    history = History(10, _MOST)
    history.note([2**63, 10, 2**64 - 1, 3])
    assert history.opens(0, 9).tolist() == [3]


def test_the_head_tells_which_order_it_is() -> None:
    order = shuffled(3, 1000).astype(np.uint32)
    assert begins_as(order[:10], order) is None
    assert begins_as(out_of_order(order, 60, 1)[:64], order)
    for other in range(4, 50):
        assert begins_as(shuffled(other, 1000).astype(np.uint32)[:64], order) is False
