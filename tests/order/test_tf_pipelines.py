"""What pipelines of tf.data read, from what they say of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from fanstore.foresight.order.samplers import pipeline_samples
from fanstore.policy.orders.other_frameworks import tf_data_shuffle


def samples(count: Any, *steps: Any) -> list[int]:
    return pipeline_samples({"samples": count, "steps": list(steps)}).tolist()


def shuffle(epoch: int, again: bool = True) -> list[Any]:
    return ["shuffle", 10, 87654321, 3, again, epoch]


def epochs(count: int, number: int) -> list[list[int]]:
    known = tf_data_shuffle(count, buffer_size=10, seed=3)
    return [next(known).tolist() for _ in range(number)]


def test_each_step_does_what_tensorflow_does() -> None:
    first, second = epochs(50, 2)
    assert samples(50) == list(range(50))
    assert [samples(50, shuffle(0)), samples(50, shuffle(1))] == [first, second]
    assert samples(50, shuffle(0, False)) == samples(50, shuffle(7, False))
    assert samples(50, shuffle(0), ["take", 7]) == first[:7]
    assert samples(50, ["take", -1], ["skip", 45]) == list(range(45, 50))
    assert samples(50, ["skip", -1]) == []
    assert samples(10, ["shard", 3, 1]) == [1, 4, 7]
    assert samples(50, shuffle(0), ["repeat", 2]) == first + second
    assert samples(50, ["take", 5], ["repeat", 2], ["skip", 3]) == [3, 4, 0, 1, 2, 3, 4]
    assert sorted(samples(50, ["index_shuffle", 3])) == list(range(50))
    assert samples(0, shuffle(0)) == samples(9, ["repeat", 0]) == []


def test_a_repeat_without_end_is_known_for_some_rounds() -> None:
    assert samples(5, ["repeat", -1]) == list(range(5)) * 16
    assert len(samples(1 << 20, ["repeat", 10**9])) == 1 << 22


@pytest.mark.parametrize(
    "said",
    [
        {}, {"samples": 5}, {"samples": -1, "steps": []}, {"samples": 2**40, "steps": []},
        {"samples": 5, "steps": "x"}, {"samples": 5, "steps": [["take", 1]] * 65},
        *(
            {"samples": 5, "steps": [step]}
            for step in (
                5, [], [[]], ["what", 1], ["take"], ["take", "1"], ["take", 2**70], ["take", 0.5],
                ["shard", 0, 0], ["shard", 2, -1], ["shuffle", 0, 1, 1, True, 0],
                ["shuffle", 5, 1, 1, True, -1], ["shuffle", 5, 1, 1, "yes", 0],
            )
        ),
        {"samples": 5, "steps": [["repeat", 2], ["repeat", 2]]},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        pipeline_samples(said)
