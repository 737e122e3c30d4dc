"""Types of the messages that a job's programs send to the node daemon. Only type checkers load this
file. fanstore.foresight.announcement reads the messages."""

from __future__ import annotations

from typing import Any, TypedDict


class Shard(TypedDict, total=False):
    """Says which batches this process gets."""

    rank: int
    world_size: int
    even: bool
    drop_last: bool
    batch: int


class SamplerTold(TypedDict, total=False):
    """The indices that a sampler will draw. kind: decides which other fields are present."""

    kind: str
    name: str
    batch: int
    drop_last: bool
    place: str
    samples: int
    drawn: int
    replacement: bool
    own_generator: bool
    seeded: int
    state: str
    drew: int | None
    seed: int
    shuffle: bool
    pads: bool
    rank: int
    world_size: int
    is_last: bool
    shard: Shard
    steps: list[list[Any]]  # the steps of a tf.data pipeline


class EpochTold(TypedDict, total=False):
    """Announces the reads of a loader in one epoch. dataset: its number, -1 if it has none; name:
    text and number of a dataset without a list of files."""

    loader: int
    sampler: SamplerTold
    workers: int
    prefetch_factor: int
    in_order: bool
    dataset: int
    name: list[Any] | None
    files_per_sample: int
    parts: list[str]


class Asked(TypedDict):
    """The request of `fanstore study analyze`. loader: the number of the loader that training
    reads."""

    phase: str
    steps: int
    directory: str
    loader: int | None


class LoaderMeasured(TypedDict):
    """The measurements of a loader. processor: processor time in seconds, and the samples prepared
    in it; steps: for each batch, when it was asked for and when it came (seconds of
    time.monotonic), its number of samples and its epoch."""

    processor: list[float]
    number: int | None
    batch: int
    workers: int
    ahead: int
    samples: int
    steps: list[tuple[float, float, int, int]]
