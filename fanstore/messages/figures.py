"""Counts and sizes that daemons tell, by the room that counts them."""

from collections.abc import Mapping, Sequence

from fanstore.messages.message import Message


class Counters(Message):
    """What the programs of a rank counted (struct fan_counters, csrc/format/shm_format.h)."""

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
    """What the daemon's C core counted (struct fan_node_stats). latency_bins: by powers of two of
    microseconds."""

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
    """What became of the outputs of a rank so far. published: staged, waiting and gone together;
    gone: replaced or removed since; copied_bytes: also of copies that are not whole yet; drafts:
    being written; unfinished: paths of those that are when all ought to be over; blocked: why
    nothing can be placed now, or ""."""

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
    """What became of them in the end. Of each list there are the first few, and beside it their
    number. unplaced: names and reasons; kept: where those are on this node, or ""; lost: names that
    were lost with their rank; failed: why there is no account, or ""."""

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
    """What was foreseen of the order of reading (docs/orders.md). predicted: opens that were; by
    sampler in `samplers`; strange: opens that were not; broken: epochs that were read in another
    order; refused: announcements by why nothing came of them; notes: why programs told nothing."""

    epochs: int
    predicted: int
    strange: int
    broken: int
    samplers: Mapping[str, int]
    refused: Mapping[str, int]
    notes: Sequence[str] = ()


class TraceFigures(Message):
    """Where the access trace is kept, and why it ends early, or ""."""

    path: str
    problem: str


class MemoryFigures(Message):
    """What is taken of a rank's memory, and by what; limit_bytes: the most that may be."""

    limit_bytes: int
    cache_bytes: int
    staged_bytes: int
    tables_bytes: int


class DatasetFigures(Message):
    """A dataset of a job: what was staged of it, and what is damaged (the first few files, and
    their number)."""

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
