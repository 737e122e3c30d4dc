"""What a kept trace says of its job, as JSON within the file (docs/trace-format.md)."""

from collections.abc import Mapping, Sequence

from fanstore.messages.figures import OrderFigures
from fanstore.messages.message import Message


class TracedDataset(Message):
    """pack_ranks: for each pack the ranks that have it; bounds: of the ranks' shares, where packs
    are on the disks in part."""

    name: str
    directory: str
    dataset_id: str
    mount_prefix: str
    pack_ranks: Sequence[Sequence[int]]
    bounds: Sequence[int]


class TracedJob(Message):
    """base_realtime_ns: when the trace's time is 0, since 1970."""

    job_id: str
    host: str
    world_size: int
    datasets: Sequence[TracedDataset]
    base_realtime_ns: int = 0


class TraceEnd(Message):
    """What was foreseen, and what the node did with that: figures that begin with "ahead"."""

    order: OrderFigures | None
    node: Mapping[str, int]
