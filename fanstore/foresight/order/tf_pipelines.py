"""Computes the order in which a pipeline of tf.data, given by its steps, reads a list of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.other_frameworks import tf_data_shuffle

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEPS_MAX = 64
_LENGTHS = {"shuffle": 6, "take": 2, "skip": 2, "shard": 3, "repeat": 2}  # of steps, by name
_ROUNDS_MAX, _REPEATED_MAX = 16, 1 << 22  # of repeat, which may have no end


def pipeline_samples(said: Mapping[str, Any]) -> NDArray[Any]:
    """Returns the numbers of the files that one iterator reads, in order. said: the parameters of
    fanstore/in_job/tensorflow_pipelines.py. Raises ValueError for parameters that make no sense."""
    count, steps = checks.integer("samples", said.get("samples"), 0, 1 << 27), said.get("steps")
    if not isinstance(steps, list) or len(steps) > _STEPS_MAX:
        raise ValueError(f"steps are {str(steps)[:80]}; allowed are {_STEPS_MAX}")
    for step in steps:
        name = step[0] if isinstance(step, list) and step else None
        if not isinstance(name, str) or len(step) != _LENGTHS.get(name):
            raise ValueError(f"a step is {str(step)[:80]}; known are {', '.join(_LENGTHS)}")
        for value in step[1:]:
            checks.integer(name, int(value) if isinstance(value, bool) else value, -(2**63), 2**63)
    return _after(count, steps, None)


def _after(count: int, steps: Sequence[Any], nth: int | None) -> NDArray[Any]:
    """Returns the order of `count` files after some steps. nth: the round of a repeat."""
    if not steps:
        return np.arange(count, dtype=np.uint32)
    *before, (name, first, *rest) = steps
    if name == "repeat":
        return _repeated(count, before, first)
    order = _after(count, before, nth)
    if name == "take":
        return order if first < 0 else order[:first]
    if name == "skip":
        return order[:0] if first < 0 else order[first:]
    if name == "shard":
        return order[checks.integer("shard", rest[0], 0) :: checks.integer("shards", first, 1)]
    return order[_shuffled(len(order), first, rest, nth)] if len(order) else order


def _repeated(count: int, steps: Sequence[Any], times: int) -> NDArray[Any]:
    """Returns some rounds of the steps before a repeat. Their shuffles go on between rounds."""
    if any(name == "repeat" for name, *_ in steps):
        raise ValueError("a repeat of a repeat is not followed")
    rounds = _ROUNDS_MAX if times < 0 else min(times, _ROUNDS_MAX)
    rounds = min(rounds, max(1, _REPEATED_MAX // max(1, count)))
    each = [_after(count, steps, nth) for nth in range(rounds)]
    return np.concatenate(each) if each else np.empty(0, np.uint32)


def _shuffled(count: int, buffer_size: int, rest: Sequence[Any], nth: int | None) -> NDArray[Any]:
    seed, seed2, again, before = rest
    epochs = tf_data_shuffle(
        count, before if nth is None else before + nth, buffer_size=min(buffer_size, count),
        seed=seed2, global_seed=seed, reshuffle_each_iteration=bool(again),
    )  # fmt: skip
    return next(epochs)
