"""A machine and a job, as scenarios describe them (docs/simulator.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fanstore.policy.checks import SAMPLES_MAX
from fanstore.policy.curve import Curve
from fanstore.policy.orders.registry import ORDERS
from fanstore.study.fields import Fields, with_lists

SYSTEM_KEYS = (
    "nodes", "ranks_per_node", "compute", "preprocess", "network", "shared", "staging_buffer",
    "classes",
)  # fmt: skip

JOB_KEYS = ("epochs", "batch", "order")

CLASSES_MAX = 14  # the most that fit into a code of fanstore.study.simulate.sources
_NODES_MAX = 2**20  # also the most ranks on a node
_EPOCHS_MAX = 2**31

# A name may be no other source's, and must be usable as a part of an option of --sweep.
_CLASS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NO_CLASS_NAMES = ("remote", "files", *SYSTEM_KEYS, *JOB_KEYS)


@dataclass(frozen=True)
class StorageClass:
    """A kind of storage in which a node keeps files, such as memory or a disk.

    threads: how many threads load from it at a time. read, write: the bytes per second of all
    threads together, by the number of threads.
    """

    name: str
    capacity_bytes: int
    threads: int
    read: Curve
    write: Curve


@dataclass(frozen=True)
class StagingBuffer:
    """The memory of a rank where samples wait until they are consumed (NoPFS, section 4).

    threads: how many threads fill it. write: the bytes per second of all threads together, by the
    number of threads.
    """

    capacity_bytes: int
    threads: int
    write: Curve


@dataclass(frozen=True)
class SharedStorage:
    """The shared file system.

    rate: the bytes per second of all readers together, by the number of readers.
    readers_per_rank: a rank that reads from it counts as so many readers.
    """

    rate: Curve
    readers_per_rank: int

    def share_bytes_per_s(self, ranks: float) -> float:
        """Returns the bytes per second that one reader gets while `ranks` ranks read."""
        return self.rate.share(max(1.0, ranks) * self.readers_per_rank)


@dataclass(frozen=True)
class System:
    """A machine (NoPFS, section 4).

    compute_bytes_per_s: the rate at which a rank consumes samples, c. preprocess_bytes_per_s: the
    rate at which one thread of a rank prepares them, beta. network_bytes_per_s: the rate at which a
    rank receives from another node, b_c. classes: the storage of each node, the fastest first."""

    nodes: int
    ranks_per_node: int
    compute_bytes_per_s: float
    preprocess_bytes_per_s: float
    network_bytes_per_s: float
    shared: SharedStorage
    staging_buffer: StagingBuffer
    classes: tuple[StorageClass, ...]

    @property
    def ranks(self) -> int:
        """The number of ranks on all nodes."""
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True)
class TrainingJob:
    """A job that trains. order: the name of its order; order_parameters: parameters of
    reads_of_ranks (fanstore/policy/orders/registry.py). order_source: says in messages where the
    order was given."""

    epochs: int
    batch_size: int
    order: str
    order_parameters: dict[str, Any]
    order_source: str = "job.order"


def read_system(fields: Fields) -> System:
    """Returns the machine that a table [system] describes. With one node, the table may have no
    network."""
    nodes = fields.integer("nodes", 1, _NODES_MAX)
    alone = nodes == 1 and "network" not in fields
    return System(
        nodes,
        fields.integer("ranks_per_node", 1, _NODES_MAX),
        fields.rate_bytes_per_s("compute"),
        fields.rate_bytes_per_s("preprocess"),
        1.0 if alone else fields.rate_bytes_per_s("network"),
        _shared(fields.table("shared", ("readers", "rate", "readers_per_rank"))),
        _staging_buffer(fields.table("staging_buffer", ("capacity", "threads", "write"))),
        _classes(fields),
    )


def _shared(fields: Fields) -> SharedStorage:
    return SharedStorage(fields.points("readers"), fields.integer("readers_per_rank", 1))


def _staging_buffer(fields: Fields) -> StagingBuffer:
    return StagingBuffer(
        fields.size_bytes("capacity"),
        fields.integer("threads", 1),
        fields.curve("write", "threads"),
    )


def _classes(system: Fields) -> tuple[StorageClass, ...]:
    found: list[StorageClass] = []
    for fields in system.tables("classes", ("name", "capacity", "threads", "read", "write")):
        each = StorageClass(
            _class_name(fields),
            fields.size_bytes("capacity"),
            fields.integer("threads", 1),
            fields.curve("read", "threads"),
            fields.curve("write", "threads"),
        )
        if each.name in [other.name for other in found]:
            raise fields.wrong("name", f"is {each.name!r} a second time", "each name once")
        if found and _read_share(each) > _read_share(found[-1]):
            what = f"makes a thread of {each.name} read faster than one of {found[-1].name}"
            raise fields.wrong("read", what, "the fastest class first")
        found.append(each)
    if len(found) > CLASSES_MAX:
        raise system.wrong("classes", f"are {len(found)}", f"{CLASSES_MAX} or fewer")
    return tuple(found)


def _class_name(fields: Fields) -> str:
    name = fields.text("name")
    if _CLASS_NAME.fullmatch(name) is None:
        raise fields.wrong("name", f"is {name!r}", "letters, digits and _ . -")
    if name in _NO_CLASS_NAMES:
        taken = ", ".join(_NO_CLASS_NAMES)
        raise fields.wrong("name", f"is {name!r}", f"any name that means nothing else ({taken} do)")
    return name


def _read_share(each: StorageClass) -> float:
    return each.read.share(each.threads)


def read_job(file: str, fields: Fields) -> TrainingJob:
    """Returns the job that a table [job] describes. file: its name in messages."""
    order = fields.value("order", 'a table such as { name = "torch-distributed", seed = 0 }')
    if not isinstance(order, dict) or order.get("name") not in ORDERS:
        named = order.get("name") if isinstance(order, dict) else order
        allowed = ", ".join(sorted(ORDERS))
        raise fields.wrong("order.name", f"is {named!r}", allowed)
    named = {key: value for key, value in order.items() if key != "name"}
    parameters = with_lists(file, "job.order", named)
    epochs = fields.integer("epochs", 1, _EPOCHS_MAX)
    batch_size = fields.integer("batch", 1, SAMPLES_MAX)
    return TrainingJob(epochs, batch_size, order["name"], parameters, f"{file}: job.order")


def source_names(system: System) -> list[str]:
    """Returns the names of all sources of samples; their positions are the numbers in Sources."""
    names = [each.name for each in system.classes]
    return [*names, *(f"remote {name}" for name in names), "shared"]
