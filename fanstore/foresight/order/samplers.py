"""Computes the samples that a loader will read from the announcement of its sampler, or of the
steps of its pipeline (tf.data, grain)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.distributed_samplers import batch_sampler_shard
from fanstore.policy.orders.generators import Mt19937, generator_at
from fanstore.policy.orders.other_frameworks import grain_index_shuffle, tf_data_shuffle
from fanstore.policy.orders.registry import strided
from fanstore.policy.orders.torch_samplers import (
    RandomSamples,
    drawn_randperm,
    randperm,
    weighted_samples,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


_STEPS_MAX = 64
# The number of values of a step, by its name.
_LENGTHS = {"shuffle": 6, "take": 2, "skip": 2, "shard": 3, "repeat": 2, "index_shuffle": 2}
_ROUNDS_MAX, _REPEATED_MAX = 16, 1 << 22  # limits for repeat, which may have no end


def pipeline_samples(said: Mapping[str, Any]) -> NDArray[Any]:
    """Returns the numbers of the files that one iterator reads, in order. said: the parameters of
    tensorflow_pipelines.py or grain_pipelines.py in fanstore/in_job. Raises ValueError for
    parameters that make no sense."""
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
    """Returns the order of `count` files after some steps. nth: the round, if they are repeated."""
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
    if name == "index_shuffle" and len(order):
        return order[next(grain_index_shuffle(len(order), nth or 0, seed=first))]
    return order[_shuffled(len(order), first, rest, nth)] if len(order) else order


def _repeated(count: int, steps: Sequence[Any], times: int) -> NDArray[Any]:
    """Returns the order of several rounds of the steps before a repeat. Their shuffles continue
    from round to round."""
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


DRAWN_MAX = 1 << 27  # the most samples in an epoch of one process


def samples(said: Mapping[str, Any], parts: Mapping[str, bytes]) -> NDArray[np.integer[Any]]:
    """Returns the sample numbers of one epoch of one loader, in order; without a last short batch
    if the loader drops it. said: the parameters of fanstore/in_job/samplers.py; parts: the arrays
    that belong to them. Checks both: raises ValueError for values that make no sense."""
    kind = _field(said, "kind", str)
    if kind not in _KINDS:
        raise ValueError(f"the sampler is {kind!r}; known are {', '.join(_KINDS)}")
    order = _KINDS[kind](said, parts)
    batch, drop_last = _whole(said, "batch", 1), _field(said, "drop_last", bool)
    if "shard" in said:
        shard = _field(said, "shard", dict)
        world_size = _whole(shard, "world_size", 1, 1 << 24)
        return batch_sampler_shard(
            order, _whole(shard, "rank", 0, world_size - 1), world_size,
            batch_size=batch, drop_last=drop_last, even_batches=_field(shard, "even", bool),
        )  # fmt: skip
    return order[: len(order) // batch * batch] if drop_last else order


def _field(said: Mapping[str, Any], name: str, kind: type) -> Any:
    value = said.get(name)
    if type(value) is not kind:
        raise ValueError(f"{name} is {value!r}; allowed is one {kind.__name__}")
    return value


def _whole(said: Mapping[str, Any], name: str, lowest: int, highest: int = DRAWN_MAX) -> int:
    return checks.integer(name, said.get(name), lowest, highest)


def _row(parts: Mapping[str, bytes], name: str, dtype: str) -> NDArray[Any]:
    content = parts.get(name, b"")
    if len(content) % 8 or not 0 < len(content) <= 8 * DRAWN_MAX:
        raise ValueError(f"{name} are {len(content)} bytes; allowed are 8 for each")
    return np.frombuffer(content, dtype)


def _generator(said: Mapping[str, Any]) -> Mt19937:
    """Returns a generator for a seed, or for a state after `skip` more words."""
    if "seeded" in said:
        return Mt19937(checks.seed(said["seeded"]))
    generator = generator_at(bytes.fromhex(_field(said, "state", str)))
    generator.skip(_whole({"skip": said.get("skip", 0)}, "skip", 0))
    return generator


def _sequential(said: Mapping[str, Any], _: Mapping[str, bytes]) -> NDArray[Any]:
    return np.arange(_whole(said, "samples", 0), dtype=np.uint32)


def _announced(said: Mapping[str, Any], parts: Mapping[str, bytes]) -> NDArray[Any]:
    """Returns an order that a program announced (fanstore.order): all its files, or some of them by
    number."""
    return _row(parts, "indices", "<i8") if "indices" in parts else _sequential(said, parts)


def _random(said: Mapping[str, Any], _: Mapping[str, bytes]) -> NDArray[Any]:
    count, replacement = _whole(said, "samples", 1), _field(said, "replacement", bool)
    draws = RandomSamples(count, _whole({"drawn": count, **said}, "drawn", 1), replacement)
    generator = _generator(said)
    if not _field(said, "own_generator", bool):
        # torch draws 64 bits for a seed, of which it uses 32
        seed = said.get("drew")
        drew = int(generator.take(2)[1]) if seed is None else _whole(said, "drew", 0, 2**63)
        generator = Mt19937(drew & 0xFFFFFFFF)
    return draws.indices(generator)


def _distributed(said: Mapping[str, Any], _: Mapping[str, bytes]) -> NDArray[Any]:
    count, world_size = _whole(said, "samples", 1), _whole(said, "world_size", 1, 1 << 24)
    if _field(said, "shuffle", bool):
        order = randperm(count, checks.seed(said.get("seed")))
    else:
        order = np.arange(count, dtype=np.uint32)
    each = -(-count // world_size) if _field(said, "pads", bool) else count // world_size
    rank = _whole(said, "rank", 0, world_size - 1)
    return strided(np.resize(order, each * world_size), rank, world_size)


def _subset(said: Mapping[str, Any], parts: Mapping[str, bytes]) -> NDArray[Any]:
    chosen = _row(parts, "indices", "<i8")
    order: NDArray[Any] = chosen[drawn_randperm(len(chosen), _generator(said))]
    return order


def _listed(said: Mapping[str, Any], parts: Mapping[str, bytes]) -> NDArray[Any]:
    return _row(parts, "indices", "<i8")


def _weighted(said: Mapping[str, Any], parts: Mapping[str, bytes]) -> NDArray[Any]:
    weights = _row(parts, "weights", "<f8")
    drawn, replacement = _whole(said, "drawn", 1), _field(said, "replacement", bool)
    draw, _ = weighted_samples(len(weights), weights, drawn, replacement)
    return draw(_generator(said))


_KINDS: dict[str, Callable[[Mapping[str, Any], Mapping[str, bytes]], NDArray[Any]]] = {
    "DistributedSampler": _distributed,
    "Listed": _listed,
    "RandomSampler": _random,
    "SequentialSampler": _sequential,
    "SubsetRandomSampler": _subset,
    "WeightedRandomSampler": _weighted,
    "announce": _announced,
    "shards": _announced,
    "stream": _announced,
    "grain": lambda said, _: pipeline_samples(said),
    "tf.data": lambda said, _: pipeline_samples(said),
}
