"""What becomes of the steps that a phase recorded."""

from __future__ import annotations

import pytest

from fanstore.study.analyze.rates import (
    Span,
    doubt,
    half_of,
    rate_of,
    rate_of_loader,
    spans_of,
    together,
    training_loader,
)

Step = tuple[float, float, int, int]


def steps(times_s: list[float], epoch: int = 0, samples: int = 8) -> list[Step]:
    return [(time_s, time_s, samples, epoch) for time_s in times_s]


def test_what_was_prepared_ahead_is_left_out() -> None:
    ahead = steps([0, 0, 0, 0, 0])
    steady = steps([1, 2, 3, 4])
    assert spans_of(ahead + steady, ahead=4, workers=0) == [Span(8, 1)] * 4


def test_an_epoch_begins_with_a_warm_up_of_its_own() -> None:
    both = steps([0, 5, 6, 7]) + steps([20, 20, 21, 22], epoch=1)
    assert [each.seconds for each in spans_of(both, 1, 0)] == [1, 1, 1, 1]


def test_epochs_that_are_all_prepared_ahead_count_from_their_second_batch() -> None:
    short = steps([0, 1, 2]) + steps([9, 10, 11], epoch=1)
    assert [each.seconds for each in spans_of(short, 16, 0)] == [1, 1, 1, 1]


def test_batches_of_several_workers_come_at_once() -> None:
    """Three workers, 1 s a batch each: three batches each second, whatever the last step is."""
    for count in range(8, 14):
        times_s = [float(number // 3) for number in range(count)]
        spans = spans_of(steps(times_s), ahead=2, workers=3)
        assert sum(each.samples for each in spans) / sum(each.seconds for each in spans) == 24


def test_equal_steps_are_known_exactly_and_unequal_ones_are_not() -> None:
    rate = rate_of([Span(8, 0.5)] * 40)
    assert rate is not None
    assert (rate.samples_per_s, rate.low, rate.high) == pytest.approx((16, 16, 16))
    assert doubt("P", rate) is None
    uneven = rate_of([Span(8, 0.1 + 0.001 * number) for number in range(70)])
    wild = rate_of([Span(8, 0.1 * 2 ** (number // 7)) for number in range(70)])
    assert uneven is not None
    assert wild is not None
    assert uneven.low < uneven.samples_per_s < uneven.high
    assert str(doubt("P", wild)).startswith("WORTHLESS: P is known to")


def test_nothing_measured_is_no_rate() -> None:
    assert rate_of([]) is None
    assert rate_of([Span(8, 0.0)]) is None
    assert together([]) is None


def test_ranks_add_up() -> None:
    one = rate_of([Span(8, 0.5 + 0.1 * (number % 3)) for number in range(50)])
    assert one is not None
    both = together([one, one])
    assert both is not None
    assert both.samples_per_s == pytest.approx(2 * one.samples_per_s)
    assert half_of(both) < half_of(one)


def test_the_loader_with_most_samples_is_that_of_training() -> None:
    checked = {"number": 0, "samples": 50, "workers": 0, "ahead": 0, "batch": 8}
    trained = {"number": 1, "samples": 500, "workers": 1, "ahead": 2, "batch": 8}
    records = [{"loaders": [
        {**checked, "steps": steps([0, 1])}, {**trained, "steps": steps([3, 4, 5, 6, 7, 8])},
    ]}] * 2  # fmt: skip
    found = training_loader(records)
    assert found is not None
    assert (found.number, found.samples, found.workers, found.got) == (1, 1000, 2, 96)
    rate = rate_of_loader(records, 1)
    assert rate is not None
    assert rate.samples_per_s == pytest.approx(16)
    assert training_loader([]) is None
