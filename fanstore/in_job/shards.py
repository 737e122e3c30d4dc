"""Finds the shards that an iterator of webdataset, MosaicML's streaming or litdata will open, from
the state of the iterator, which it does not advance. See start.py."""

from __future__ import annotations

import array
import functools
import itertools
import math
import os
import random
import sys
import time
import types
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


class Coming(NamedTuple):
    """Shards that will be opened. paths: of all shards; numbers: of those that will be opened, in
    order; ranges: returns the part of a shard that each of these opens reads, as in
    foresight/ranges.py; None if that cannot be known."""

    paths: list[str]
    numbers: array.array[int]
    ranges: Callable[[], array.array[int]] | None = None


_OPENERS = ("StreamingOpen", "tarfile_samples")  # steps of webdataset that open shards
_TIME_MAX_S = 2.0  # for reading where samples lie in their shards
_DRAWN_MAX = 1 << 16  # draws with replacement that are foreseen: in some 40 ms


def coming(rows: Any, things: list[Any]) -> Coming | None:
    """Returns the shards that an iterator will open; None if it is of another library. rows: the
    module rows.py; things: the iterator, and what it refers to."""
    generators = [each for each in things if type(each) is types.GeneratorType]
    for thing in things:
        try:
            if type(thing) is types.GeneratorType:
                found = _of_shuffle(rows, thing) if thing.__name__ == "_shuffle" else None
            else:
                modules = [each.__module__ for each in type(thing).__mro__]
                of = next((_READERS[each] for each in modules if each in _READERS), None)
                found = None if of is None else of(vars(thing), len(generators) > 1)
        except (AttributeError, LookupError, TypeError, ValueError):  # of another version
            continue
        if found is not None and found.numbers:
            return found
    return None


def _of_streaming(dataset: Any, _: bool) -> Coming | None:
    """Returns the shard of each sample, whose file is opened for it, and where the sample lies."""
    iterator = dataset.get("_iterator")
    if iterator is None:
        return None
    left, firsts = (
        iterator.sample_ids[iterator.yield_index + 1 :],
        dataset["sample_offset_per_shard"],
    )
    left = left[left >= 0]
    shards = firsts.searchsorted(left, "right") - 1
    paths = [
        os.path.join(shard.dirname, shard.split, shard.raw_data.basename)
        for shard in dataset["shards"]
    ]
    ranges = None
    if all(type(shard).__name__ == "MDSReader" for shard in dataset["shards"]):
        places = left - firsts[shards]
        ranges = functools.partial(_of_mds, paths, dataset["shards"], shards, places)
    return Coming(paths, array.array("q", shards.tolist()), ranges)


def _of_mds(paths: list[str], readers: Any, shards: Any, places: Any) -> array.array[int]:
    """Returns where samples lie in their files, as ranges (foresight/ranges.py). shards, places: of
    each sample, the number of its shard and its place in it."""
    np, until_s = sys.modules["numpy"], time.monotonic() + _TIME_MAX_S
    samples = np.argsort(shards, kind="stable")
    groups = np.split(samples, np.flatnonzero(np.diff(shards[samples])) + 1)
    ranges = array.array("q")
    for group in groups if len(samples) else ():
        shard = int(shards[group[0]])
        if time.monotonic() > until_s:
            break
        try:
            with open(paths[shard], "rb", 0) as file:
                # the number of samples, where each begins, and the end of the last one
                head = np.frombuffer(file.read(4 * (readers[shard].samples + 2)), "<u4")
        except OSError:  # it has not come from its bucket yet
            continue
        at, one = places[group] + 1, np.ones(len(group))
        for begins, ends in ((head[at], head[at + 1]), (4 * at, 4 * at + 8)):  # both are read
            rows = np.column_stack([one * shard, group, one, begins, ends])
            ranges.frombytes(rows.astype("q").tobytes())
    return ranges


def _of_litdata(dataset: Any, _: bool) -> Coming | None:
    cache = dataset.get("cache")
    if cache is None:
        return None
    config = cache._reader._config
    paths = [os.path.join(config._cache_dir, chunk["filename"]) for chunk in config._chunks]
    left = dataset["worker_chunks"][dataset["worker_next_chunk_index"] :]
    return Coming(paths, array.array("q", map(int, left)))


def _of_webdataset(dataset: Any, begun: bool) -> Coming | None:
    """Returns the shards that a pipeline will read from its beginning, if their order follows from
    seeds; those drawn with replacement once the pipeline has `begun`, which has then seeded its
    generator. For others that have begun, _of_shuffle knows the rest."""
    first, *steps = dataset["pipeline"]
    if begun and type(first).__name__ == "ResampledShards":
        return _of_resampled(first, steps)
    if begun or type(first).__name__ != "SimpleShardList" or first.seed is not None:
        return None
    urls = list(first.urls)
    rank, world_size, worker, workers = sys.modules["webdataset.utils"].pytorch_worker_info()
    for step in steps:
        name = _name(step)
        if name == "split_by_node":
            urls = urls[rank::world_size]
        elif name == "split_by_worker":
            urls = urls[worker::workers]
        elif name == "detshuffle":
            chance = random.Random(step.seed + step.epoch + 1)
            urls = list(_drawn([], iter(urls), step.bufsize, step.initial, chance))
        elif name == "_shuffle" and set(step.kw) <= {"initial", "seed"}:
            size, initial = [*step.args, 100][:2]
            chance, initial = random.Random(step.kw["seed"]), step.kw.get("initial", initial)
            urls = list(_drawn([], iter(urls), size, initial, chance))
        elif name != "single_node_only":
            return Coming(urls, array.array("q", range(len(urls)))) if name in _OPENERS else None
    return None


def _name(step: Any) -> str:
    """Returns the name of the function or class of a pipeline's step."""
    function = getattr(step, "f", step if hasattr(step, "__name__") else type(step))
    return str(function.__name__)


def _of_resampled(first: Any, steps: list[Any]) -> Coming | None:
    """Returns shards that are drawn with replacement, of which ranks and workers share each
    draw."""
    _, world_size, _, workers = sys.modules["webdataset.utils"].pytorch_worker_info()
    shared = {"single_node_only": 1, "split_by_node": world_size, "split_by_worker": workers}
    names = itertools.takewhile(lambda name: name not in _OPENERS, map(_name, steps))
    step = 1
    for name in names:
        if name not in shared:
            return None
        step *= shared[name]
    chance, last = random.Random(0), len(first.urls) - 1
    chance.setstate(first.rng.getstate())
    drawn = [chance.randint(0, last) for _ in range(max(_DRAWN_MAX, step))]
    return Coming(list(first.urls), array.array("q", drawn[step - 1 :: step]))


_READERS = {
    "streaming.base.dataset": _of_streaming,
    "litdata.streaming.dataset": _of_litdata,
    "webdataset.pipeline": _of_webdataset,
}


def _of_shuffle(rows: Any, shuffle: Any) -> Coming | None:
    """Returns the shards that webdataset's generator `_shuffle` will draw from its buffer, which it
    fills up from another iterator."""
    own = rows.inside(shuffle)
    own = next((rows.inside(each) for each in own if type(each) is types.FrameType), own)
    sources = [each for each in own if hasattr(type(each), "__next__")]
    buffers = [each for each in own if type(each) is list and each]
    chances = [each for each in own if type(each) is random.Random]
    numbers = [each for each in own if isinstance(each, int)]
    if not sources or len(buffers) != 1 or len(chances) != 1 or len(numbers) < 2:
        return None
    if not all(type(each) is dict and type(each.get("url")) is str for each in buffers[0]):
        return None
    buffer = [each["url"] for each in buffers[0]]
    rest = _after(rows, sources[0], buffer)
    if rest is None:
        return None
    chance = random.Random(0)
    chance.setstate(chances[0].getstate())
    size, initial = numbers[:2]
    order = list(_drawn(buffer, iter(rest), size, initial, chance))
    return Coming(order, array.array("q", range(len(order))))


def _after(rows: Any, source: Any, given: list[str]) -> list[str] | None:
    """Returns the URLs that an iterator will give after those in `given`: each n-th of a list,
    because ranks and workers share the list. None if no list is found."""
    things = rows.reached(source)
    for row, position in rows.with_positions(things):
        places = {each: place for place, each in enumerate(row) if type(each) is str}
        passed = [position - 1 - places.get(each, position) for each in given]
        if len(given) > 2 and min(passed) >= 0:
            step = functools.reduce(math.gcd, passed)
            return list(row[position - 1 + step :: step])
    is_over = not any(hasattr(type(each), "__next__") for each in things[1:])
    return [] if is_over else None


def _drawn(
    buffer: list[str], rest: Iterator[str], size: int, initial: int, chance: random.Random
) -> Iterator[str]:
    """Yields what `_shuffle` yields."""
    initial = min(initial, size)
    for each in rest:
        buffer.append(each)
        if len(buffer) < size:
            buffer += itertools.islice(rest, 1)
        if len(buffer) >= initial:
            yield _picked(buffer, chance)
    while buffer:
        yield _picked(buffer, chance)


def _picked(buffer: list[str], chance: random.Random) -> str:
    at = chance.randint(0, len(buffer) - 1)
    buffer[at], picked = buffer[-1], buffer[at]
    buffer.pop()
    return picked
