"""Facts about the job that are stored in a kept trace, as JSON (docs/trace-format.md)."""

from collections.abc import Mapping, Sequence

from fanstore.messages.figures import OrderFigures
from fanstore.messages.message import Message


class TracedDataset(Message):
    """A dataset of the job. pack_ranks: for each pack the ranks that have it; bounds: the bounds of
    the ranks' shares, if the disks hold packs only in part."""

    name: str
    directory: str
    dataset_id: str
    mount_prefix: str
    pack_ranks: Sequence[Sequence[int]]
    bounds: Sequence[int]


class TracedJob(Message):
    """The job itself. base_realtime_ns: time 0 of the trace, in nanoseconds since 1970."""

    job_id: str
    host: str
    world_size: int
    datasets: Sequence[TracedDataset]
    base_realtime_ns: int = 0


class TraceEnd(Message):
    """Facts that are known at the end of the job: how well the order of reading was predicted, and
    the figures of the node's prefetching, whose names begin with "ahead"."""

    order: OrderFigures | None
    node: Mapping[str, int]
