"""Facts about the job that a kept trace holds, as JSON in the file (docs/trace-format.md)."""

from collections.abc import Mapping, Sequence

from fanstore.messages.figures import OrderFigures
from fanstore.messages.message import Message


class TracedDataset(Message):
    """pack_ranks: for each pack the ranks that have it; bounds: the bounds of the ranks' shares, if
    packs are only in part on the disks."""

    name: str
    directory: str
    dataset_id: str
    mount_prefix: str
    pack_ranks: Sequence[Sequence[int]]
    bounds: Sequence[int]


class TracedJob(Message):
    """base_realtime_ns: the moment of the trace's time 0, in nanoseconds since 1970."""

    job_id: str
    host: str
    world_size: int
    datasets: Sequence[TracedDataset]
    base_realtime_ns: int = 0


class TraceEnd(Message):
    """The predictions about the order of reading, and the figures of the node's prefetching: those
    that begin with "ahead"."""

    order: OrderFigures | None
    node: Mapping[str, int]
