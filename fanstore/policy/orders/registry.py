"""Access orders by their names, and the reads of each rank and node in each epoch.

An order lists samples as they are read. tf-data-shuffle is an exception: it lists samples as they
leave a buffer, into which they were read before in the order of the dataset.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.distributed_samplers import (
    distributed_sampler,
    repeat_aug_sampler,
)
from fanstore.policy.orders.other_frameworks import (
    dali_random_shuffle,
    grain_index_shuffle,
    rotating_shard,
    tf_data_shuffle,
)
from fanstore.policy.orders.torch_samplers import (
    random_sampler,
    random_sampler_generator,
    sequential,
    subset_random_sampler,
    weighted_random_sampler,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

ORDERS: dict[str, Callable[..., Iterator[NDArray[np.uint32]]]] = {
    "dali-shuffle": dali_random_shuffle,
    "grain-shuffle": grain_index_shuffle,
    "sequential": sequential,
    "tf-data-shuffle": tf_data_shuffle,
    "timm-repeat-aug": repeat_aug_sampler,
    "torch-distributed": distributed_sampler,
    "torch-generator": random_sampler_generator,
    "torch-random": random_sampler,
    "torch-subset-random": subset_random_sampler,
    "torch-weighted-random": weighted_random_sampler,
}


def keywords(function: Callable[..., Any]) -> dict[str, bool]:
    """Returns the keyword parameters of a function, and whether each must be given."""
    return {
        key: each.default is each.empty
        for key, each in inspect.signature(function).parameters.items()
        if each.kind is each.KEYWORD_ONLY
    }


def check(name: str, known: dict[str, bool], parameters: Collection[str]) -> None:
    """Raises ValueError for an unknown order, an unknown parameter, or a missing one. known: the
    parameters, each with whether it must be given."""
    if name not in ORDERS:
        raise ValueError(f"order is {name!r}; allowed are {', '.join(sorted(ORDERS))}")
    allowed = ", ".join(known) or "none"
    for key in parameters:
        if key not in known:
            raise ValueError(f"order {name} has no parameter {key!r}; allowed are {allowed}")
    for key, needed in known.items():
        if needed and key not in parameters:
            raise ValueError(f"order {name} needs the parameter {key!r}; allowed are {allowed}")


def orders(
    name: str, sample_count: int, first_epoch: int = 0, **parameters: Any
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of first_epoch and the epochs after it.

    name: one of ORDERS; parameters: the keyword parameters of its function. Raises ValueError for
    an unknown name or parameter, a missing parameter, and a value that is not allowed.
    """
    check(name, keywords(ORDERS[name]) if name in ORDERS else {}, parameters)
    return ORDERS[name](sample_count, first_epoch, **parameters)


def strided(order: NDArray[Any], rank: int, world_size: int) -> NDArray[Any]:
    """Returns the reads of a rank in a DistributedSampler's order: each world_size-th entry, from
    entry `rank` on. So in one step the ranks together read entries that follow each other."""
    world_size = checks.integer("world_size", world_size, 1)
    return order[checks.integer("rank", rank, 0, world_size - 1) :: world_size]


def by_node(reads: list[NDArray[Any]], ranks_per_node: int) -> list[NDArray[Any]]:
    """Returns one array of samples for each node: the reads of its ranks, merged in turn.

    reads: one array of samples for each rank, the ranks of a node side by side. The merge takes one
    sample of each rank of a node in turn; ranks that have more left go on alone.
    """
    return [
        _by_turns(reads[first : first + ranks_per_node])
        for first in range(0, len(reads), ranks_per_node)
    ]


def _by_turns(reads: list[NDArray[Any]]) -> NDArray[Any]:
    turns = np.concatenate([np.arange(len(each)) for each in reads])
    together: NDArray[Any] = np.concatenate(reads)[np.argsort(turns, kind="stable")]
    return together


# For each order, the function that returns one rank's part of it. Other orders are for one rank
# only.
SPLITS: dict[str, Callable[..., NDArray[Any]]] = {
    "dali-shuffle": rotating_shard,
    "timm-repeat-aug": strided,
    "torch-distributed": strided,
}


def reads_of_ranks(
    name: str, sample_count: int, world_size: int, first_epoch: int = 0, **parameters: Any
) -> Iterator[list[NDArray[Any]]]:
    """Returns an endless iterator over first_epoch and the epochs after it: for each epoch a list
    of one array of samples for each of world_size ranks.

    name: one of ORDERS. parameters: those of the order and of its split in SPLITS, but for
    world_size and epoch. Raises ValueError for unknown, missing and wrong ones, and for several
    ranks with an order that is not in SPLITS.
    """
    checks.integer("world_size", world_size, 1)
    first_epoch = checks.integer("first_epoch", first_epoch, 0)
    split = SPLITS.get(name)
    of_order = keywords(ORDERS[name]) if name in ORDERS else {}
    of_split = keywords(split) if split else {}
    given = {"world_size", "epoch"}
    known = {key: needed for key, needed in {**of_order, **of_split}.items() if key not in given}
    check(name, known, parameters)
    if split is None and world_size > 1:
        raise ValueError(
            f"order {name} is of {world_size} ranks; allowed is 1, or one of the orders "
            f"{', '.join(SPLITS)}"
        )
    fixed = {key: value for key, value in parameters.items() if key in of_order}
    if "world_size" in of_order:
        fixed["world_size"] = world_size
    coming = ORDERS[name](sample_count, first_epoch, **fixed)
    if split is None:
        return ([order] for order in coming)
    own = {key: value for key, value in parameters.items() if key in of_split}
    first = {"epoch": first_epoch} if "epoch" in of_split else {}
    # raises ValueError for values out of range
    split(np.empty(0, np.uint32), 0, world_size, **own, **first)
    if not first:
        return (_divided(split, order, world_size, own) for order in coming)
    return (
        _divided(split, order, world_size, {**own, "epoch": epoch})
        for epoch, order in zip(count(first_epoch), coming, strict=False)
    )


def _divided(
    split: Callable[..., NDArray[Any]],
    order: NDArray[Any],
    world_size: int,
    parameters: dict[str, Any],
) -> list[NDArray[Any]]:
    return [split(order, rank, world_size, **parameters) for rank in range(world_size)]
