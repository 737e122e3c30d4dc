"""Following an expected order through what is opened, for random orders and reorderings."""

from __future__ import annotations

import numpy as np
import pytest
from soak import sampled

from fanstore.foresight.order.follow import Expected, Follower

_SEEDS = sampled(range(20), range(3))


def as_opened(order, workers, batch, prefetch_factor, rng):
    """Yields the records of an order as the workers of a DataLoader open them: each has batches of
    its own, and the next is handed out when the first is received, in the order of sampling."""
    batches = [order[at : at + batch].tolist() for at in range(0, len(order), batch)]
    ahead = workers * prefetch_factor
    left = [len(each) for each in batches]
    head = 0
    while head < len(batches):
        open_to = []
        for worker in range(workers):
            mine = range(head + (worker - head) % workers, head + ahead, workers)
            open_to += [each for each in mine if each < len(batches) and left[each]][:1]
        now = open_to[rng.integers(len(open_to))]
        yield batches[now][len(batches[now]) - left[now]]
        left[now] -= 1
        while head < len(batches) and not left[head]:
            head += 1


def in_pieces(records, rng, most=300):
    records, at = np.array(list(records), dtype=np.uint64), 0
    while at < len(records):
        step = int(rng.integers(1, most))
        yield records[at : at + step]
        at += step


def loader(rng, **changes):
    values = {
        "workers": int(rng.integers(1, 5)),
        "batch": int(rng.integers(1, 33)),
        "prefetch_factor": int(rng.integers(1, 4)),
        **changes,
    }
    return values


def random_order(rng, count=4000, spread=100_000):
    return rng.permutation(spread)[:count].astype(np.uint64)


@pytest.mark.parametrize("seed", _SEEDS)
def test_all_opens_of_a_right_order_are_due(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng)
    expected = Expected(0, random_order(rng), **how)
    follower = Follower(expected)
    opened = 0
    for piece in in_pieces(as_opened(expected.records, rng=rng, **how), rng):
        opened += len(piece)
        position = follower.note(piece)
        assert opened - 2 * expected.reordered <= position <= opened
    assert (follower.position, follower.matched, follower.strange) == (4000, 4000, 0)


@pytest.mark.parametrize("seed", _SEEDS)
def test_the_position_never_passes_what_may_still_be_opened(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng)
    expected = Expected(0, random_order(rng), **how)
    follower = Follower(expected)
    left = set(expected.records.tolist())
    for record in as_opened(expected.records, rng=rng, **how):
        left.discard(record)
        passed = expected.records[: follower.note([record])]
        assert left.isdisjoint(passed[-400:].tolist())


def test_one_process_reads_in_order():
    expected = Expected(1, np.arange(50)[::-1])
    follower = Follower(expected)
    assert [follower.note([record]) for record in range(49, -1, -1)] == list(range(1, 51))


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_wrong_order_is_broken_after_few_opens(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng)
    records = random_order(rng)
    follower = Follower(Expected(0, records, **how))
    opened = 0
    for piece in in_pieces(rng.permutation(records), rng, most=20):
        follower.note(piece)
        opened += len(piece)
        if follower.broken:
            break
    assert follower.broken
    assert opened <= 400 + follower.matched * 6
    position = follower.position
    assert follower.note(records) == position


def test_a_wrong_order_is_broken_in_one_look():
    rng = np.random.default_rng(1)
    records = random_order(rng)
    follower = Follower(Expected(0, records, 4, 8))
    follower.note(rng.permutation(records)[:500])
    assert follower.broken


def test_what_comes_after_the_end_is_left_for_the_next_epoch():
    rng = np.random.default_rng(1)
    records = random_order(rng)
    follower, following = Follower(Expected(0, records)), Follower(Expected(0, records[::-1]))
    left = []
    for piece in in_pieces(np.append(records, records[::-1][:1000]), rng, most=50):
        follower.note(piece)
        left += follower.left.tolist()
    assert (follower.position, follower.strange) == (4000, 0)
    assert len(left) > 990
    following.catch_up(left)
    assert (following.matched, following.strange, len(following.left)) == (len(left), 0, 0)


@pytest.mark.parametrize("seed", _SEEDS)
def test_epochs_that_were_read_before_they_were_known(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng)
    epochs = [random_order(rng, 200, 200) for _ in range(3)]
    left = np.concatenate([list(as_opened(each, rng=rng, **how)) for each in epochs])
    for epoch in epochs:
        follower = Follower(Expected(0, epoch, **how))
        follower.catch_up(left)
        left = follower.left
        assert (follower.position, follower.strange) == (200, 0)
    assert len(left) == 0


@pytest.mark.parametrize("seed", _SEEDS)
def test_other_files_say_nothing(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng)
    expected = Expected(0, random_order(rng), **how)
    follower = Follower(expected)
    for piece in in_pieces(as_opened(expected.records, rng=rng, **how), rng):
        follower.note(rng.permutation(np.append(piece, rng.integers(100_000, 200_000, 500))))
    assert (follower.position, follower.matched, follower.strange) == (4000, 4000, 0)


@pytest.mark.parametrize("seed", _SEEDS)
def test_another_reader_of_the_same_files_breaks_nothing(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng)
    expected = Expected(0, random_order(rng), **how)
    follower = Follower(expected)
    for piece in in_pieces(as_opened(expected.records, rng=rng, **how), rng):
        follower.note(np.append(piece, rng.choice(expected.records, len(piece))))
    assert not follower.broken
    assert follower.position == 4000
    assert follower.strange > 0


@pytest.mark.parametrize("seed", _SEEDS)
def test_files_opened_several_times_count_once(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng)
    expected = Expected(0, random_order(rng), **how)
    follower = Follower(expected)
    for piece in in_pieces(as_opened(expected.records, rng=rng, **how), rng):
        follower.note(np.repeat(piece, rng.integers(1, 4)))
    assert (follower.position, follower.matched, follower.strange) == (4000, 4000, 0)


@pytest.mark.parametrize("seed", _SEEDS)
def test_the_head_comes_again_as_padding(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng)
    records = random_order(rng)
    expected = Expected(0, np.append(records, records[:50]), **how)
    follower = Follower(expected)
    for piece in in_pieces(as_opened(expected.records, rng=rng, **how), rng):
        follower.note(piece)
    assert (follower.position, follower.matched, follower.strange) == (4050, 4050, 0)


@pytest.mark.parametrize("seed", _SEEDS)
def test_samples_drawn_with_replacement(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng)
    drawn = (rng.zipf(1.5, 4000) % 1000).astype(np.uint64)  # the most frequent one is a third
    expected = Expected(0, drawn, **how)
    follower = Follower(expected)
    for piece in in_pieces(as_opened(expected.records, rng=rng, **how), rng):
        follower.note(piece)
    assert (follower.position, follower.strange) == (4000, 0)


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_resumed_job_begins_in_the_middle(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng)
    expected = Expected(0, random_order(rng), **how)
    follower = Follower(expected)
    begin = 1500 // how["batch"] * how["batch"]
    for piece in in_pieces(as_opened(expected.records[begin:], rng=rng, **how), rng):
        follower.note(piece)
    assert not follower.broken
    assert follower.position == 4000


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_broken_off_epoch_stays_where_it_is(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng)
    expected = Expected(0, random_order(rng), **how)
    follower = Follower(expected)
    read = list(as_opened(expected.records, rng=rng, **how))[:1234]
    for piece in in_pieces(read, rng):
        follower.note(piece)
    assert 1234 - 2 * expected.reordered <= follower.position <= 1234
    assert follower.strange == 0


@pytest.mark.parametrize("seed", _SEEDS)
def test_samples_that_are_not_read_hold_nothing_up(seed):
    rng = np.random.default_rng(seed)
    how = loader(rng, batch=8)
    records = random_order(rng)
    cached = records[rng.random(4000) < 0.2]
    follower = Follower(Expected(0, records, **how))
    opened = as_opened(records, rng=rng, **how)
    for piece in in_pieces((each for each in opened if each not in cached), rng, most=50):
        follower.note(piece)
    assert follower.position >= 3000
    assert not follower.broken
    assert follower.strange == 0


def test_batches_out_of_order_wait_for_a_straggler():
    expected = Expected(0, np.arange(1000), 2, 10, 2, in_order=False)
    follower = Follower(expected)
    follower.note(np.arange(10, 30))
    assert follower.position == 0
    follower.note(np.append(np.arange(30, 500), np.arange(10)))
    assert follower.position == 500


def test_opens_far_out_of_order_are_due_without_order():
    """A worker keeps one batch while the others read ten times the window."""
    rest = np.arange(10, 1000)
    follower = Follower(Expected(0, np.arange(1000), 2, 10, 2, in_order=False))
    for at in range(0, 400, 20):
        follower.note(rest[at : at + 20])
    assert (follower.position, follower.strange) == (0, 0)


def test_an_empty_order_has_no_places():
    follower = Follower(Expected(0, np.array([], np.uint64)))
    assert follower.note([1, 2, 3]) == 0
    assert (follower.matched, follower.strange) == (0, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("mount", -1), ("workers", -1), ("batch", 0), ("prefetch_factor", 0), ("in_order", 1),
     ("records", [[1]]), ("records", [0.5]), ("records", [-1])],
)  # fmt: skip
def test_values_out_of_range_are_refused(name, value):
    values = {"mount": 0, "records": [1, 2], name: value}
    with pytest.raises(ValueError, match=name):
        Expected(**values)


@pytest.mark.parametrize("seed", _SEEDS)
def test_an_order_that_grows_is_that_which_was_whole(seed: int) -> None:
    """Pieces of many sizes, told a little ahead of what is opened out of order."""
    rng = np.random.default_rng(seed)
    order = rng.integers(0, 300, 1000).astype(np.uint64)
    follower = Follower(Expected(0, order[:64], workers=2, batch=8))
    told, read, dropped = 64, 0, 0
    while read < len(order):
        step = int(rng.integers(1, 24))
        follower.note(rng.permutation(order[read : read + step]))
        read += step
        while told - read < 32 and told < len(order):
            more = int(rng.integers(1, 40))
            dropped += follower.extend(order[told : told + more], 8)
            told = min(told + more, len(order))
        assert dropped + follower.position <= min(read, len(order))
    assert not follower.broken
    assert follower.matched == len(order)
    assert dropped + follower.position == len(order)


@pytest.mark.parametrize("late", [0, 25])
@pytest.mark.parametrize("reopened", [False, True])
def test_shards_that_are_opened_several_times(reopened: bool, late: int) -> None:
    """Each shard is opened three times, the last time after the next shard was opened; `late`
    opens come before the order is known."""
    order = np.random.default_rng(3).permutation(200).astype(np.uint64)
    again = np.append(order[:1], order[:-1])
    opened = np.column_stack([order, order, again]).ravel()
    follower = Follower(Expected(0, order, batch=8, reopened=reopened))
    follower.catch_up(opened[:late])
    for at in range(late, len(opened), 10):
        follower.note(opened[at : at + 10])
    follower.note(order[-1:])
    assert (follower.broken, follower.strange, follower.position) == (False, 0, len(order))
    assert follower.matched == (len(opened) + 1 if reopened else len(order))
