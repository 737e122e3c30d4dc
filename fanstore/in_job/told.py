"""What programs of a job tell the node daemon, for type checkers: no program loads this at run
time. fanstore.foresight.announcement reads it."""

from __future__ import annotations

from typing import Any, TypedDict


class Shard(TypedDict, total=False):
    """Which of all batches are those of this process."""

    rank: int
    world_size: int
    even: bool
    drop_last: bool
    batch: int


class SamplerTold(TypedDict, total=False):
    """What a sampler will draw. kind: says which of the others there are."""

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
    seed: int
    shuffle: bool
    pads: bool
    rank: int
    world_size: int
    is_last: bool
    shard: Shard
    steps: list[list[Any]]  # of tf.data


class EpochTold(TypedDict, total=False):
    """What a loader reads in one epoch. dataset: its number, -1 where it has none; name: text,
    number and length of a dataset without a list of files."""

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
    """What `fanstore analyze` asks for. loader: the number of the one that training reads from."""

    phase: str
    steps: int
    directory: str
    loader: int | None


class LoaderMeasured(TypedDict):
    """What was measured of a loader. processor: seconds of processors, and samples they were for;
    steps: of each batch when it was asked for, when it came, how many samples, in which epoch."""

    processor: list[float]
    number: int | None
    batch: int
    workers: int
    ahead: int
    samples: int
    steps: list[tuple[float, float, int, int]]
