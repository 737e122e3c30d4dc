"""Counts and sizes that daemons report, one class for each part of the daemon; and facts about the
job that are stored in a kept trace, as JSON (docs/format.md)."""

from collections.abc import Mapping, Sequence

from fanstore.messages.message import Message


class Counters(Message):
    """Counts over all programs of one rank (struct fan_counters, csrc/format/shm_format.h)."""

    opens: int
    reads: int
    read_bytes: int
    stats: int
    decoded_bytes: int
    mapped_bytes: int
    directory_opens: int
    errors: int
    missing: int
    refused_writes: int
    cache_hits: int
    cache_misses: int
    remote_bytes: int
    shared_reads: int
    shared_bytes: int
    remote_opens: int


class NodeFigures(Message):
    """Counts of the daemon's C core (struct fan_node_stats). latency_bins: a histogram of the
    fetches by their duration, in powers of two of microseconds."""

    fetches: int
    fetched_bytes: int
    coalesced: int
    ahead: int
    ahead_bytes: int
    ahead_late: int
    ahead_unread_bytes: int
    hints_dropped: int
    retries: int
    timeouts: int
    failures: int
    shared_reads: int
    shared_bytes: int
    kept_records: int
    kept_bytes: int
    full_disks: int
    damaged_records: int
    mended_records: int
    filling_ahead: int
    served: int
    served_bytes: int
    refused: int
    evicted: int
    quarantined: int
    outstanding: int
    resident_bytes: int
    peak_resident_bytes: int
    cache_bytes: int
    sessions: int
    lost_ranks: int
    latency_bins: Sequence[int]


class OutputFigures(Message):
    """The state of a rank's outputs. published: staged, waiting and gone together; gone: replaced
    or removed after they were placed; copied_bytes: also counts copies that are not complete yet;
    drafts: files that are being written; unfinished: paths of files still being written when all
    programs should have ended; blocked: why nothing can be placed now, or ""."""

    output_dir: str
    published: int
    staged: int
    staged_bytes: int
    gone: int
    waiting: int
    waiting_bytes: int
    copied_bytes: int
    drafts: int
    unfinished: Sequence[str]
    blocked: str


class OutputAccount(OutputFigures):
    """The state of a rank's outputs at the end of the job. Each list holds the first few entries;
    the count beside it is the number of all. unplaced: names and reasons; kept: the folder on this
    node that holds the unplaced files, or ""; lost: names of outputs lost because their rank died;
    failed: why the daemon could not write this account, or ""."""

    unplaced: Sequence[tuple[str, str]] = ()
    unplaced_count: int = 0
    kept: str = ""
    partials: Sequence[str] = ()
    partial_count: int = 0
    lost: Sequence[str] = ()
    lost_count: int = 0
    backups: Sequence[str] = ()
    backup_count: int = 0
    failed: str = ""


class OrderFigures(Message):
    """How well FanStore predicted which files are opened next (docs/orders.md). predicted: opens in
    the predicted order; samplers: these opens by sampler; strange: opens of files that were
    expected at another time; broken: epochs that were read in another order than predicted;
    refused: unusable announcements by reason; notes: why programs announced nothing; pieces: of
    large files, that loaders read for samples; in all other counts they are opens."""

    epochs: int
    predicted: int
    strange: int
    broken: int
    samplers: Mapping[str, int]
    refused: Mapping[str, int]
    notes: Sequence[str] = ()
    pieces: int = 0


class TraceFigures(Message):
    """The state of the access trace. path: its file; problem: why it ends early, or ""."""

    path: str
    problem: str


class MemoryFigures(Message):
    """The memory that a rank uses, by purpose; limit_bytes: the most that it may use."""

    limit_bytes: int
    cache_bytes: int
    staged_bytes: int
    tables_bytes: int


class BucketFigures(Message):
    """The requests that a daemon sent to fetch objects, how many of them failed in a way that may
    pass, and the bytes that came."""

    requests: int
    failed: int
    bytes: int


class DatasetFigures(Message):
    """A dataset of a job: how much of it was staged, and which files are damaged (the first few,
    and the number of all)."""

    name: str
    directory: str
    dataset_id: str
    mount_prefix: str
    packs: int
    in_place: bool
    replicas: int
    remote_packs: int
    copied_packs: int
    copied_bytes: int
    received_packs: int
    received_bytes: int
    reused_packs: int
    shared_bytes: int
    share_bytes: int
    damaged_count: int
    damaged_files: Sequence[str]


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
    buckets: BucketFigures | None = None
